#!/usr/bin/env python3
"""The daemons run, and find each other, on the configuration that the packages install."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402


class ConfigurationTest(packages.PackagesTest):
    def configuration(self, name, values, taken_in=False):
        """The path of a copy of a configuration file with other values, with all fields that are offered taken in or not."""
        with open(self.path("etc/medley/%s.yaml" % name), encoding="utf-8") as file:
            text = file.read()
        if taken_in:
            text = re.sub(r"^#(?=\w+: )", "", text, flags=re.MULTILINE)
        for field, value in values.items():
            text, count = re.subn(r"^%s: .*$" % field, "%s: %s" % (field, value), text, flags=re.MULTILINE)
            self.assertEqual(count, 1, "%s in %s.yaml" % (field, name))
        path = os.path.join(self.directory, "%s-%s.yaml" % (name, taken_in))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def file(self, name):
        return os.path.join(self.directory, name)

    def medley(self, *arguments):
        subprocess.run([self.path("usr/bin/medley"), *arguments], check=True, capture_output=True)

    def start(self, program, configuration):
        """The process, once it listens, and the address."""
        process = subprocess.Popen([self.path("usr/sbin/" + program), "--config", configuration], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = []
        for line in process.stdout:  # ends with the process, so that a refusal is no wait
            said.append(line)
            listens = re.search(r" listens at ([\w.]+:\d+)", line)
            if listens:
                return process, listens[1]
        raise AssertionError("%s ended: %s" % (program, "".join(said)))

    def run_on_packaged_configuration(self, taken_in):
        state = {"state_directory": os.path.join(self.directory, "state-%s" % taken_in), "listen_address": "127.0.0.1:0"}
        of_agent = {}
        environment = dict(os.environ)
        if taken_in:
            state["backup"] = json.dumps({"directory": self.file("backups"), "every_hours": 24, "keep": 7})
            state["address_file"] = os.path.join(self.directory, "address")
            self.medley("certs", "init", self.file("authority"))
            for values, role, name in [(state, "coordinator", "coordinator"), (of_agent, "agent", "node1"), ({}, "admin", "root")]:
                self.medley("certs", "issue", self.file(role), "--authority", self.file("authority"), "--role", role, "--name", name)
                values["tls"] = json.dumps({kind: os.path.join(self.file(role), kind + ".pem") for kind in ("certificate", "key", "authority")})
                if values is state:
                    values["join"] = json.dumps({kind: self.file("authority/" + name) for kind, name in [
                        ("certificate", "authority.pem"), ("key", "authority-key.pem")]})
                values["http_address"] = "127.0.0.1:0"
                values["http_address_file"] = self.file(role + "-http")
            environment["MEDLEY_CERTIFICATES"] = self.file("admin")
        coordinator, address = self.start("medley-coordinator", self.configuration("coordinator", state, taken_in))
        agent, _ = self.start("medley-agent", self.configuration("agent", {"coordinator_address": address, **of_agent}, taken_in))
        nodes = []
        while not nodes:  # the agent registers as soon as it listens
            self.assertIsNone(agent.poll())
            nodes = json.loads(subprocess.check_output([self.path("usr/bin/medley"), "--coordinator", address, "nodes",
                                                        "--output", "json"], text=True, env=environment)).get("nodes", [])
        self.assertTrue(nodes[0]["alive"])
        for process in (agent, coordinator):
            process.terminate()
            process.stdout.read()
            self.assertEqual(process.wait(), 0)
        if taken_in:  # the first is due at the start, and ends before the coordinator does
            self.assertRegex(" ".join(os.listdir(self.file("backups"))), r"^medley-\d{8}T\d{6}Z\.db$")
        return nodes[0]

    def test_a_cluster_runs_on_it_as_it_is(self):
        self.assertTrue(self.run_on_packaged_configuration(taken_in=False)["devices"])

    def test_and_with_every_field_that_it_offers(self):
        node = self.run_on_packaged_configuration(taken_in=True)
        self.assertEqual((node["name"], node["network_cards"], node["site"], node["rack"]), ("node1", 1, "north", "r1"))
        self.assertEqual([device["name"] for device in node["devices"]], ["cpu0"])

    def test_it_has_every_field_that_there_is(self):
        for name, message in [("coordinator", "CoordinatorConfig"), ("agent", "AgentConfig")]:
            known = packages.fields_of(message)
            self.assertGreater(len(known), 5)
            offered = re.findall(r"^#?(\w+): ", self.packages["medley-" + name].text("etc/medley/%s.yaml" % name), re.MULTILINE)
            self.assertEqual(sorted(offered), sorted(known))

    def test_what_is_wrong_with_it_ends_with_the_status_that_the_units_know(self):
        for name in ("coordinator", "agent"):
            path = os.path.join(self.directory, "wrong.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("listen_adress: 127.0.0.1:0\n")
            done = subprocess.run([self.path("usr/sbin/medley-" + name), "--config", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("RestartPreventExitStatus=2\n",
                          self.packages["medley-" + name].text("lib/systemd/system/medley-%s.service" % name))


if __name__ == "__main__":
    run_cases.main()
