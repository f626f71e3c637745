#!/usr/bin/env python3
"""The programs as the packages have them: they run on the packages' configuration and find each other, and what was made of
their --help has all that they know."""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402

PROTO = os.path.join(packages.HERE, "..", "..", "proto", "medley", "v1")
FISH, ZSH = "usr/share/fish/vendor_completions.d/medley.fish", "usr/share/zsh/vendor-completions/_medley"


def fields_of(message):
    """The names of the fields of a message, by the proto files."""
    proto = ""
    for name in ("config", "cluster"):
        with open(os.path.join(PROTO, name + ".proto"), encoding="utf-8") as file:
            proto += file.read()
    body = re.search(r"^message %s \{$(.*?)^\}" % message, proto, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"(\w+) = \d+ *[;\[]", re.sub(r"//.*", "", body))


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
        if taken_in:
            state["address_file"] = os.path.join(self.directory, "address")
        coordinator, address = self.start("medley-coordinator", self.configuration("coordinator", state, taken_in))
        agent, _ = self.start("medley-agent", self.configuration("agent", {
            "coordinator_address": address, "work_directory": self.directory}, taken_in))
        nodes = []
        while not nodes:  # the agent registers as soon as it listens
            self.assertIsNone(agent.poll())
            nodes = json.loads(subprocess.check_output([self.path("usr/bin/medley"), "--coordinator", address, "nodes",
                                                        "--output", "json"], text=True)).get("nodes", [])
        self.assertTrue(nodes[0]["alive"])
        for process in (agent, coordinator):
            process.terminate()
            process.stdout.read()
            self.assertEqual(process.wait(), 0)
        return nodes[0]

    def test_a_cluster_runs_on_it_as_it_is(self):
        self.assertTrue(self.run_on_packaged_configuration(taken_in=False)["devices"])

    def test_and_with_every_field_that_it_offers(self):
        node = self.run_on_packaged_configuration(taken_in=True)
        self.assertEqual((node["name"], node["network_cards"]), ("node1", 1))
        self.assertEqual([device["name"] for device in node["devices"]], ["cpu0"])

    def test_it_has_every_field_that_there_is(self):
        for name, message in [("coordinator", "CoordinatorConfig"), ("agent", "AgentConfig")]:
            known = fields_of(message)
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


class HelpTest(packages.PackagesTest):
    """What medley says of itself, read from its help here by other means than the packages' build has."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.commands = {}
        listed = cls.medley("--help").split("\nSubcommands:\n")[1]
        for name in re.findall(r"^  (\S+)", listed, re.MULTILINE):
            cls.commands[name] = cls.options_in(cls.medley(name, "--help"))
        cls.common = cls.options_in(cls.medley("--help"))

    @classmethod
    def medley(cls, *arguments):
        return subprocess.check_output([os.path.join(cls.root, "usr/bin/medley"), *arguments], text=True)

    @staticmethod
    def options_in(text):
        lines = re.findall(r"^  (-\S+)", text, re.MULTILINE)
        return {option for line in lines for option in line.split(",") if option.startswith("-")}

    def test_this_test_reads_the_help(self):
        self.assertGreater(len(self.commands), 20)
        self.assertLessEqual({"--watch", "--set", "-h", "--help"}, self.commands["submit"])
        self.assertLessEqual({"--coordinator", "--output", "--timeout"}, self.common)

    def test_bash_completes_every_command_and_option(self):
        def offered(*words):
            script = 'source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _medley; printf "%s\\n" "${COMPREPLY[@]}"'
            return set(subprocess.check_output(
                ["bash", "-c", script, "bash", self.path("usr/share/bash-completion/completions/medley"), "medley", *words],
                text=True).split())

        self.assertEqual(offered(""), set(self.commands) | self.common)
        for name, options in self.commands.items():
            self.assertEqual(offered(name, "-"), options | self.common, name)
        self.assertEqual(offered("submit", "--wat"), {"--watch"})

    def test_zsh_names_every_command_and_option(self):
        text = self.packages["medley"].text(ZSH)
        self.assertTrue(text.startswith("#compdef medley\n"))
        for name, options in self.commands.items():
            self.assertRegex(text, r"(?m)^    '%s:" % name)
            words = re.search(r"(?m)^    %s\) words='(.*)' ;;$" % name, text)[1].split()
            self.assertEqual(set(words), options | self.common)

    def test_fish_names_every_command_and_option(self):
        found = {}
        for line in self.packages["medley"].text(FISH).splitlines():
            command = re.match(r"complete -c medley -n '__fish_seen_subcommand_from (\S+)' -(l|s) (\S+)", line)
            if command:
                found.setdefault(command[1], set()).add(("--" if command[2] == "l" else "-") + command[3])
            elif " -n __fish_use_subcommand -a " in line:
                found.setdefault(line.split(" -a ")[1].split()[0], set())
        self.assertEqual(found, self.commands)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_reads_its_completion(self):
        subprocess.check_call(["zsh", "-n", self.path(ZSH)])

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish_reads_its_completion(self):
        subprocess.check_call(["fish", "--no-execute", self.path(FISH)])

    def test_manual_pages_have_every_command_option_and_field(self):
        page = self.manual("medley")
        for name, options in self.commands.items():
            section = re.search(r'(?ms)^\.SS "medley %s\b.*?(?=^\.S[SH] )' % re.escape(name.replace("-", "\\-")), page)[0]
            entries = re.findall(r"(?m)^\\fB(\S+).*\\fR$|^\\fB(\S+)\\fR$", section.replace("\\-", "-"))
            named = {option for entry in entries for option in "".join(entry).split(",") if option.startswith("-")}
            self.assertEqual(named, options - {"-h", "--help"}, name)
        for name, fields in [("coordinator", {"CoordinatorConfig"}), ("agent", {"AgentConfig", "Device"})]:
            written = re.findall(r"(?m)^\\fB(\w+) \(", self.manual("medley-" + name))
            self.assertEqual(sorted(written), sorted(field for message in fields for field in fields_of(message)))

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_manual_pages_are_read_without_a_warning(self):
        for name in ("medley", "medley-coordinator", "medley-agent"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z"], input=self.manual(name), text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def manual(self, name):
        section = 1 if name == "medley" else 8
        text = gzip.decompress(self.packages[name].content["usr/share/man/man%d/%s.%d.gz" % (section, name, section)][1]).decode()
        self.assertNotRegex(text, r"@\w+@")
        return text


if __name__ == "__main__":
    run_cases.main()
