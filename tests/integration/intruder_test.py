"""Who does not belong gets nothing, on the coordinator and on an agent, and a job that trains meanwhile takes no notice."""
import os
import resource
import socket
import subprocess
import tempfile
import time
import unittest

import grpc

from cluster import Process, cpu_device, cpu_variants, program, random_seed, run_command, training_text, wait_for, write_file, write_spec

CONNECTIONS = 10_000
COMPARED_STEPS = 40
# Of the coordinator, by the least role that may; an empty message is request enough to be refused.
BY_ROLE = {"viewer": ["GetJob", "ListJobs", "ListNodes", "GetPlan", "ListLogs"],
           "operator": ["SubmitJob", "CancelJob", "HoldJob", "DeleteJob", "PlanJob", "MeasureLinks", "CheckNodes", "GetStacks", "TraceSteps"],
           "admin": ["ForgetNode", "DrainNode", "UndrainNode", "BackUp", "ListAudit", "CreateJoinToken", "ListJoinTokens", "RevokeJoinToken"]}
ORDER = ["viewer", "operator", "admin"]


class IntruderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        cls.seed = random_seed()
        cls.medley("certs", "init", cls.path("authority"))
        cls.medley("certs", "init", cls.path("strangers"))
        for role in ("coordinator", "agent", "viewer", "operator", "admin"):
            cls.issue(role, role, {"agent": "node1"}.get(role, role))
        cls.issue("stranger", "admin", "stranger", authority="strangers")
        cls.coordinator = cls.start("coordinator", "medley-coordinator", {
            "listen_address": "127.0.0.1:0", "address_file": cls.path("address"), "state_directory": cls.path("state"),
            "lease_seconds": 60})  # longer than a busy machine keeps an agent from running
        wait_for(lambda: cls.coordinator.log(), lambda: os.path.exists(cls.path("address")))
        with open(cls.path("address")) as file:
            cls.address = file.read().strip()
        cls.agent = cls.start("agent", "medley-agent", {
            "name": "node1", "coordinator_address": cls.address, "listen_address": "127.0.0.1:0",
            "devices": [cpu_device(cpu_variants()[-1])]})
        cls.environment = {"MEDLEY_COORDINATOR": cls.address, "MEDLEY_CERTIFICATES": cls.path("admin")}
        wait_for("the node registers", lambda: cls.medley("nodes", "--output", "json").json()["nodes"])
        write_file(cls.path("train.txt"), training_text())

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.directory, *names)

    @classmethod
    def issue(cls, folder, role, name, authority="authority"):
        cls.medley("certs", "issue", cls.path(folder), "--authority", cls.path(authority), "--role", role, "--name", name,
                   "--host", "localhost")

    @classmethod
    def tls(cls, folder):
        return {kind: cls.path(folder, kind + ".pem") for kind in ("certificate", "key", "authority")}

    @classmethod
    def start(cls, name, executable, config):
        file = write_spec(cls.path(name + ".yaml"), {**config, "tls": cls.tls(name)})
        process = Process(name, [program(executable), "--config", file], cls.path(name + ".log"))
        cls.addClassCleanup(process.kill_group)
        return process

    @classmethod
    def medley(cls, *arguments, check=True):
        result = run_command([program("medley"), *arguments], environment=getattr(cls, "environment", None))
        if check and result.status != 0:
            raise AssertionError(str(result))
        return result

    def channel(self, folder, address):
        """With the certificate of a folder; the authority is always ours."""
        def read(path):
            with open(path, "rb") as file:
                return file.read()
        files = self.tls(folder) if folder else {}
        credentials = grpc.ssl_channel_credentials(read(self.path("authority", "authority.pem")),
                                                   *[read(files[kind]) for kind in ("key", "certificate") if folder])
        # This client looks at hosts where ours look at roles.
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1), ("grpc.ssl_target_name_override", "localhost")]
        return grpc.secure_channel(address, credentials, options)

    def call(self, method, folder, address=None, service="Coordinator", request=b""):
        """The code of a call with the certificate of a folder."""
        with self.channel(folder, address or self.address) as channel:
            try:
                list(channel.unary_stream("/medley.v1.%s/%s" % (service, method))(request, timeout=60))
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

    def running_job(self):
        """It trains for as long as it is let."""
        spec = write_spec(self.path("job.yaml"), {
            "name": "intruded", "model": {"gpt2": {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 256}},
            "data": {"train": self.path("train.txt"), "format": "text"}, "batch": {"sequences": 4, "sequence_length": 32},
            "steps": 1_000_000, "optimizer": {"learning_rate": 1e-3}})
        job = self.medley("submit", spec).out.strip()
        wait_for(lambda: self.medley("status", job).out, lambda: self.job(job)["last_step"].get("step", 0) > 1
                 if self.job(job).get("last_step") else False, seconds=300)
        return job

    def job(self, job):
        return self.medley("status", job, "--output", "json").json()

    def test_nothing_gets_in_and_the_job_takes_no_notice(self):
        quiet = self.running_job()
        wait_for(lambda: self.medley("status", quiet).out, lambda: self.job(quiet)["last_step"]["step"] >= COMPARED_STEPS, seconds=300)
        self.medley("cancel", quiet)
        job = self.running_job()
        self.roles_are_held_to()
        self.strangers_do_not_get_as_far_as_a_call()
        self.an_agent_is_one_node_and_listens_to_the_coordinator_alone()
        self.what_is_no_message_is_refused()
        self.silent_connections_change_nothing()
        self.refusals_are_written_down()
        before = self.job(job)["last_step"]["step"]
        wait_for("the job goes on", lambda: self.job(job)["last_step"]["step"] > max(before + 5, COMPARED_STEPS), seconds=300)
        now = self.job(job)
        self.assertEqual((now["state"], now["attempt"], now["restarts"]), ("running", 1, 0),
                         self.medley("logs", job).out + self.coordinator.log())
        losses = [[step["loss"] for step in self.medley("steps", one, "--output", "json").json()["steps"][:COMPARED_STEPS]]
                  for one in (quiet, job)]
        self.assertEqual(*losses)
        self.medley("cancel", job)
        for process in (self.coordinator, self.agent):
            self.assertIsNone(process.child.poll())
            self.assertNotIn("PRIVATE", process.log())

    def roles_are_held_to(self):
        for least, methods in BY_ROLE.items():
            for role in ORDER + ["agent", "coordinator"]:
                may = role in ORDER and ORDER.index(role) >= ORDER.index(least)
                for method in methods:
                    with self.subTest(role=role, method=method):
                        if may and method in ("BackUp", "MeasureLinks", "CheckNodes"):
                            continue  # they do something
                        code = self.call(method, role)
                        self.assertEqual(code == "PERMISSION_DENIED", not may, code)
        for method in ("Register", "Renew", "Deregister", "Leave", "RenewCertificate"):
            self.assertEqual(self.call(method, "admin", service="Registry"), "PERMISSION_DENIED")

    def strangers_do_not_get_as_far_as_a_call(self):
        self.assertEqual(self.call("ListJobs", None), "UNAUTHENTICATED")
        self.assertEqual(self.call("ListJobs", "stranger"), "UNAVAILABLE")
        # What anybody may call, and what comes of it where no agent joins by tokens.
        join = b"\x0a\x01a\x12\x01b\x1a\x05node1\x22\x01c"
        self.assertEqual(self.call("Join", None, service="Registry", request=join), "FAILED_PRECONDITION")
        self.assertEqual(self.call("Join", None, service="Registry"), "INVALID_ARGUMENT")
        self.assertEqual(self.call("GetAuthority", None, service="Registry"), "FAILED_PRECONDITION")
        for method in ("Register", "Renew", "RenewCertificate"):
            self.assertEqual(self.call(method, None, service="Registry"), "UNAUTHENTICATED")
        folder = self.path("late")
        os.makedirs(folder)
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder + "/key.pem",
                        "-subj", "/O=medley:admin/CN=late", "-out", folder + "/request.pem"], check=True, capture_output=True)
        # Of a day that was over before it began to be asked for.
        subprocess.run(["openssl", "x509", "-req", "-in", folder + "/request.pem", "-CA", self.path("authority", "authority.pem"),
                        "-CAkey", self.path("authority", "authority-key.pem"), "-CAcreateserial", "-days", "-1",
                        "-out", folder + "/certificate.pem"], check=True, capture_output=True)
        self.assertEqual(self.call("ListJobs", "late"), "UNAVAILABLE")
        with grpc.insecure_channel(self.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            with self.assertRaises(grpc.RpcError):
                channel.unary_unary("/medley.v1.Coordinator/GetJob")(b"", timeout=60)

    def an_agent_is_one_node_and_listens_to_the_coordinator_alone(self):
        node2 = b"\x0a\x05node2"  # RenewRequest and others: node = 1
        for method in ("Renew", "Deregister", "Leave"):
            self.assertEqual(self.call(method, "agent", service="Registry", request=node2), "PERMISSION_DENIED")
        self.assertEqual(self.call("RenewCertificate", "agent", service="Registry", request=node2 + b"\x12\x01x"), "PERMISSION_DENIED")
        self.assertEqual(self.call("Register", "agent", service="Registry", request=b"\x0a\x07" + node2), "PERMISSION_DENIED")
        nodes = self.medley("nodes", "--output", "json").json()["nodes"]
        self.assertEqual([node["name"] for node in nodes], ["node1"])
        for role in ("viewer", "admin", "agent"):
            for method in ("Prepare", "Start", "Stop", "DescribeKernels", "DescribeStacks", "TraceTask", "CheckNode"):
                self.assertEqual(self.call(method, role, address=nodes[0]["agent_address"], service="Agent"), "PERMISSION_DENIED")
        self.assertEqual(self.call("Stop", None, address=nodes[0]["agent_address"], service="Agent"), "UNAUTHENTICATED")

    def what_is_no_message_is_refused(self):
        garbage = bytes(self.seed.randrange(256) for _ in range(1000))
        for method in ("SubmitJob", "GetJob", "PlanJob"):
            self.assertIn(self.call(method, "operator", request=garbage), ("INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND"))
        self.assertEqual(self.call("SubmitJob", "operator", request=b"\x00" * (65 << 20)), "RESOURCE_EXHAUSTED")

    def silent_connections_change_nothing(self):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        host, port = self.address.rsplit(":", 1)
        count = min(CONNECTIONS, limit[1] - 200)
        silent = []
        try:
            for number in range(count):
                silent.append(socket.create_connection((host, int(port)), timeout=60))
                if number % 10 == 0:  # the first bytes of a handshake, and no more
                    silent[-1].sendall(b"\x16\x03\x01")
            self.assertEqual(self.call("GetJob", "viewer"), "INVALID_ARGUMENT")  # it is answered all the same
            self.assertTrue(self.medley("nodes", "--output", "json").json()["nodes"][0]["alive"])
        finally:
            for one in silent:
                one.close()
        # Whoever comes while thousands of connections end may have to come again.
        wait_for("the coordinator answers", lambda: self.medley("nodes", check=False).status == 0)

    def refusals_are_written_down(self):
        records = self.medley("audit", "-n", "100000", "--output", "json").json()["records"]
        self.assertIn(("viewer", "SubmitJob", "PERMISSION_DENIED"), [(one["identity"], one["method"], one["result"]) for one in records])
        before, began = len(records), time.monotonic()
        with self.channel("viewer", self.address) as channel:
            call = channel.unary_unary("/medley.v1.Coordinator/SubmitJob")
            for _ in range(2000):
                self.assertRaises(grpc.RpcError, call, b"", timeout=60)
        records = self.medley("audit", "-n", "100000", "--output", "json").json()["records"]
        minutes = int((time.monotonic() - began) / 60) + 2
        self.assertLessEqual(len(records) - before, 61 * minutes)  # sixty a minute, and how many there were beside them
        self.assertEqual([one["number"] for one in records], list(range(1, len(records) + 1)))


if __name__ == "__main__":
    unittest.main()
