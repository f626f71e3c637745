"""Agents join a coordinator by tokens, get certificates for keys of their own, and have them renewed; who may not, does not."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import grpc

from cluster import Process, cpu_device, cpu_variants, program, read_when_there, run_command, training_text, wait_for, write_file, write_spec


class JoinTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.environment = {}
        for authority in ("authority", "strangers"):
            self.medley("certs", "init", self.path(authority))
        for name, role in (("coordinator", "coordinator"), ("alice", "admin"), ("bob", "operator")):
            self.issue(name, role, "authority")
        self.coordinator, self.address = self.start_coordinator("coordinator", "authority")
        self.environment = {"MEDLEY_COORDINATOR": self.address, "MEDLEY_CERTIFICATES": self.path("alice")}

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def medley(self, *arguments, status=0):
        result = run_command([program("medley"), *arguments], environment=self.environment)
        self.assertEqual(result.status, status, str(result))
        return result

    def issue(self, folder, role, authority):
        self.medley("certs", "issue", self.path(folder), "--authority", self.path(authority), "--role", role, "--name", folder,
                    "--host", "localhost")

    def tls(self, folder):
        return {kind: self.path(folder, kind + ".pem") for kind in ("certificate", "key", "authority")}

    def coordinator_config(self, name, authority):
        return {"listen_address": "127.0.0.1:0", "address_file": self.path(name + ".address"),
                "state_directory": self.path(name + "-state"), "lease_seconds": 60, "tls": self.tls(name),
                "join": {"certificate": self.path(authority, "authority.pem"), "key": self.path(authority, "authority-key.pem")}}

    def start_coordinator(self, name, authority):
        file = write_spec(self.path(name + ".yaml"), self.coordinator_config(name, authority))
        process = Process(name, [program("medley-coordinator"), "--config", file], self.path(name + ".log"))
        self.addCleanup(process.kill_group)
        return process, read_when_there(self.path(name + ".address"), process)

    def token(self, *options):
        """Its id, and all of it."""
        made = self.medley("join-token", "create", "--output", "json", *options).json()
        return made["token_id"], made["token"]

    def agent_config(self, name, token=None, address=None, node=None):
        """Of an agent that has nothing but a token, or no longer that."""
        file = self.path(name + ".token")
        if token:
            write_file(file, token + "\n")
        return write_spec(self.path(name + ".yaml"), {
            "name": node or name, "coordinator_address": address or self.address, "listen_address": "127.0.0.1:0",
            "devices": [cpu_device(cpu_variants()[-1])], "tls": self.tls(name), "join_token_file": file})

    def start_agent(self, name, *arguments, **more):
        config = self.agent_config(name, *arguments, **more)
        process = Process(name, [program("medley-agent"), "--config", config], self.path(name + ".log"))
        self.addCleanup(process.kill_group)
        return process

    def wait_until_alive(self, agent, name):
        wait_for(lambda: agent.log(), lambda: any(node["name"] == name and node["alive"] for node in
                                                  self.medley("nodes", "--output", "json").json()["nodes"]))

    def refused(self, name, *arguments, status=2, **more):
        """What an agent says that does not join."""
        config = self.agent_config(name, *arguments, **more)
        result = run_command([program("medley-agent"), "--config", config])
        self.assertEqual(result.status, status, str(result))
        self.assertFalse(os.path.exists(self.tls(name)["certificate"]))
        return result.err

    def read(self, *names):
        with open(self.path(*names)) as file:
            return file.read()

    def audit(self):
        return self.medley("audit", "--output", "json").json()["records"]

    def call(self, method, request, folder=None):
        """The code of a call, with no certificate or with that of a folder."""
        def read(path):
            with open(path, "rb") as file:
                return file.read()
        files = self.tls(folder) if folder else {}
        credentials = grpc.ssl_channel_credentials(read(self.path("authority", "authority.pem")),
                                                   *[read(files[kind]) for kind in ("key", "certificate") if folder])
        options = [("grpc.enable_http_proxy", 0), ("grpc.ssl_target_name_override", "localhost")]
        with grpc.secure_channel(self.address, credentials, options) as channel:
            try:
                channel.unary_unary("/medley.v1." + method)(request, timeout=60)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

    def test_a_node_joins_by_a_token_trains_and_comes_back_without_it(self):
        token_id, token = self.token()
        agent = self.start_agent("node1", token)
        self.wait_until_alive(agent, "node1")
        self.assertEqual(os.stat(self.tls("node1")["key"]).st_mode & 0o777, 0o600)
        shown = self.medley("certs", "show", self.tls("node1")["certificate"], "--output", "json").json()
        self.assertEqual((shown["identity"], shown["role"], shown["hosts"]), ("node1", "agent", ["node1"]))
        write_file(self.path("train.txt"), training_text(20_000))
        job = self.medley("submit", write_spec(self.path("job.yaml"), {
            "name": "first", "model": {"gpt2": {"layers": 1, "hidden": 16, "heads": 1, "vocabulary": 256}},
            "data": {"train": self.path("train.txt"), "format": "text"}, "batch": {"sequences": 2, "sequence_length": 16},
            "steps": 3, "optimizer": {"learning_rate": 1e-3}})).out.strip()
        wait_for(lambda: self.medley("logs", job).out,
                 lambda: self.medley("status", job, "--output", "json").json()["state"] == "done", seconds=300)
        # The same files again, and no token.
        certificate = self.read("node1", "certificate.pem")
        agent.kill(signal.SIGTERM)
        os.remove(self.path("node1.token"))
        agent = self.start_agent("node1")
        wait_for(lambda: agent.log(), lambda: agent.log().count("registered as node1") == 2)
        self.assertEqual(self.read("node1", "certificate.pem"), certificate)

        listed = self.medley("join-token", "list", "--output", "json").json()["tokens"]
        self.assertEqual([(one["id"], one["created_by"], one["used_by"]) for one in listed], [(token_id, "alice", "node1")])
        self.assertIn("by node1", self.medley("join-token", "list").out)
        records = [(one["identity"], one["method"], one["subject"], one["result"]) for one in self.audit()]
        self.assertIn(("alice", "CreateJoinToken", token_id, "OK"), records)
        self.assertIn(("", "Join", "node1", "OK"), records)
        # Its secret stands nowhere but where it was written.
        secret = token.split(".")[2]
        for text in (self.coordinator.log(), agent.log(), json.dumps(self.audit()), json.dumps(listed)):
            self.assertNotIn(secret, text)
            self.assertNotIn("PRIVATE", text)
        for file in os.listdir(self.path("coordinator-state")):
            with open(self.path("coordinator-state", file), "rb") as content:
                self.assertNotIn(secret.encode(), content.read(), file)

    def test_tokens_that_are_used_revoked_expired_cut_or_anothers_are_refused_and_written_down(self):
        used_id, used = self.token("--node", "node1")
        self.assertIn("it is for node node1", self.refused("node2", used))
        agent = self.start_agent("node1", used)
        self.wait_until_alive(agent, "node1")
        self.assertIn("it was used by node node1", self.refused("node2", used))
        self.assertIn("it was used by node node1", self.refused("thief", used, node="node1"))
        revoked_id, revoked = self.token()
        self.medley("join-token", "revoke", revoked_id)
        self.assertIn("it was revoked", self.refused("node2", revoked))
        self.medley("join-token", "revoke", "nothing", status=1)
        _, expired = self.token("--valid-for", "1s")
        wait_for("it expires", lambda: "expired" in self.medley("join-token", "list").out)
        self.assertIn("it expired at", self.refused("node2", expired))
        _, fresh = self.token()
        self.assertIn("is not all of a join token", self.refused("node2", fresh[:-1]))
        parts = fresh.split(".")
        unknown = ".".join([parts[0], parts[1], "0" * 64, parts[3]])
        self.assertIn("there is none of this id and secret", self.refused("node2", unknown))
        self.assertIn("an agent of this name is alive", self.refused("other", fresh, node="node1"))
        agent = self.start_agent("node2", fresh)  # none of it has spent it
        self.wait_until_alive(agent, "node2")
        refusals = [one["message"] for one in self.audit() if (one["method"], one["result"]) == ("Join", "PERMISSION_DENIED")]
        for token_id, why in ((used_id, "it is for node node1"), (used_id, "it was used by"), (revoked_id, "it was revoked"),
                              (parts[1], "none of this id and secret"), (parts[1], "is alive")):
            self.assertTrue(any(token_id in message and why in message for message in refusals), (token_id, why, refusals))
        self.assertIn(("alice", "RevokeJoinToken", revoked_id, "OK"),
                      [(one["identity"], one["method"], one["subject"], one["result"]) for one in self.audit()])

    def test_another_coordinator_at_the_address_gets_no_token(self):
        _, token = self.token()
        self.issue("impostor", "coordinator", "strangers")
        impostor, address = self.start_coordinator("impostor", "strangers")
        said = self.refused("node1", token, address=address, status=1)
        self.assertIn("is not the coordinator that made the join token", said)
        self.environment["MEDLEY_COORDINATOR"], before = address, self.environment["MEDLEY_COORDINATOR"]
        self.issue("mallory", "admin", "strangers")
        self.environment["MEDLEY_CERTIFICATES"] = self.path("mallory")
        self.assertEqual([one for one in self.audit() if one["method"] == "Join"], [])  # it was not even asked
        self.environment = {"MEDLEY_COORDINATOR": before, "MEDLEY_CERTIFICATES": self.path("alice")}
        agent = self.start_agent("node1", token)
        self.wait_until_alive(agent, "node1")

    def test_a_certificate_is_renewed_while_the_agent_runs_and_for_its_own_name_alone(self):
        self.nearly_over("node1")
        before, key_before = self.read("node1", "certificate.pem"), self.read("node1", "key.pem")
        agent = self.start_agent("node1")
        wait_for(lambda: agent.log(), lambda: "the certificate is renewed" in agent.log())
        self.assertNotIn(before, self.read("node1", "certificate.pem"))
        self.assertNotIn(key_before, self.read("node1", "key.pem"))
        shown = self.medley("certs", "show", self.tls("node1")["certificate"], "--output", "json").json()
        self.assertEqual((shown["identity"], shown["role"], shown["hosts"]), ("node1", "agent", []))
        self.wait_until_alive(agent, "node1")
        self.assertIn(("node1", "RenewCertificate", "node1", "OK"),
                      [(one["identity"], one["method"], one["subject"], one["result"]) for one in self.audit()])
        # RenewCertificateRequest: node = 1, certificate_request = 2.
        for folder, node, code in (("node1", b"node2", "PERMISSION_DENIED"), ("node1", b"node1", "INVALID_ARGUMENT"),
                                   ("alice", b"node1", "PERMISSION_DENIED"), (None, b"node1", "UNAUTHENTICATED")):
            request = b"\x0a\x05" + node + b"\x12\x01x"
            self.assertEqual(self.call("Registry/RenewCertificate", request, folder), code, (folder, node))
        for method in ("CreateJoinToken", "ListJoinTokens", "RevokeJoinToken"):
            self.assertEqual(self.call("Coordinator/" + method, b"", "bob"), "PERMISSION_DENIED")
            self.assertEqual(self.call("Coordinator/" + method, b""), "UNAUTHENTICATED")

    def nearly_over(self, name):
        """A certificate of an agent of which a long part has passed."""
        folder = self.path(name)
        os.makedirs(folder)
        configuration = write_file(self.path("ca.cnf"), "\n".join([
            "[ca]", "default_ca = own", "[own]", "new_certs_dir = %s" % self.directory, "database = %s" % self.path("index"),
            "rand_serial = yes", "default_md = sha256", "policy = any", "[any]", "organizationName = optional", "commonName = supplied"]))
        write_file(self.path("index"), "")
        date = subprocess.run(["date", "-u", "-d", "+5 days", "+%Y%m%d000000Z"], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder + "/key.pem",
                        "-subj", "/O=medley:agent/CN=" + name, "-out", folder + "/request.pem"], check=True, capture_output=True)
        subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", configuration, "-cert", self.path("authority", "authority.pem"),
                        "-keyfile", self.path("authority", "authority-key.pem"), "-startdate", "20200101000000Z", "-enddate", date,
                        "-in", folder + "/request.pem", "-out", folder + "/certificate.pem"], check=True, capture_output=True)
        write_file(folder + "/authority.pem", self.read("authority", "authority.pem"))

    def test_a_key_that_others_can_read_is_told_but_not_refused(self):
        self.issue("careless", "coordinator", "authority")
        key = self.tls("careless")["key"]
        file = write_spec(self.path("exposed.yaml"), self.coordinator_config("careless", "authority"))
        for mode, warnings in ((0o600, 0), (0o644, 1)):
            os.chmod(key, mode)
            result = run_command([program("medley-coordinator"), "--config", file, "--check-config"])
            self.assertEqual(result.status, 0, str(result))
            self.assertEqual(result.err.count("warning: tls.key: "), warnings, result.err)
        process, _ = self.start_coordinator("careless", "authority")
        wait_for(process.log, lambda: "tls.key: others than its owner" in process.log())

        self.assertEqual(self.medley("nodes").err, "")
        os.chmod(self.tls("alice")["key"], 0o644)
        self.assertIn("warning: MEDLEY_CERTIFICATES: others than its owner", self.medley("nodes").err)

    def test_a_configuration_that_cannot_work_is_refused_before_the_start(self):
        def said(config, name="medley-coordinator"):
            file = write_spec(self.path("wrong.yaml"), config)
            result = run_command([program(name), "--config", file, "--check-config"])
            self.assertEqual(result.status, 2, str(result))
            return result.err
        config = self.coordinator_config("coordinator", "strangers")
        self.assertIn("join.certificate: %s signs nothing" % self.path("strangers", "authority.pem"), said(config))
        config["join"] = {"certificate": self.path("authority", "authority.pem"), "key": self.tls("coordinator")["key"]}
        self.assertIn("the authority's key is not the one of its certificate", said(config))
        del config["tls"]
        self.assertIn("join: needs tls", said(config))
        self.assertIn("join_token_file: needs tls", said({"join_token_file": "/nowhere"}, "medley-agent"))
        self.assertIn("/nowhere cannot be read", said({"join_token_file": "/nowhere", "tls": self.tls("nobody")}, "medley-agent"))


if __name__ == "__main__":
    unittest.main()
