#!/usr/bin/env python3
"""The programs start by what the manifests tell them, answer the probes, and end within the time that their pods have."""
import http.client
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import unittest

import grpc
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
from daemons import PATIENCE, Pod, gather_programs, write  # noqa: E402
from kustomization import build, pod_specs  # noqa: E402
from references import of_kind  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
OVERLAYS = os.path.join(ROOT, "deploy", "kubernetes", "overlays")
SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
VALUES = {"spec.nodeName": "rack-1.example", "status.podIP": "127.0.0.1",
          "metadata.annotations['batch.kubernetes.io/job-completion-index']": "2"}


def health(address):
    """What a probe of Kubernetes' kind "grpc" asks."""
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE, wait_for_ready=True)


def address_in(line):
    return re.search(r"listens at ([0-9.]+:[0-9]+)", line).group(1)


class ProgramsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.programs = os.path.join(cls.folder, "programs")
        gather_programs(ROOT, cls.programs)
        cls.overlays = {name: build(os.path.join(OVERLAYS, name)) for name in sorted(os.listdir(OVERLAYS))}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def pod(self, overlay, kind, name):
        controller = next(one for one in of_kind(self.overlays[overlay], kind) if one["metadata"]["name"] == name)
        folder = tempfile.mkdtemp(dir=self.folder)
        return Pod(self.overlays[overlay], controller, folder, self.programs)

    def coordinator(self):
        return self.pod("cpu", "StatefulSet", "coordinator")

    def agent(self, overlay, kind, name, coordinator="127.0.0.1:1"):
        """An agent's pod that dials `coordinator`, prepared."""
        pod = self.pod(overlay, kind, name)
        file = pod.place("/etc/medley/agent-configuration.yaml")
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        self.assertIn("coordinator:7070", text)
        write(file, text.replace("coordinator:7070", coordinator))
        pod.prepare(VALUES)
        return pod

    def test_the_coordinator_starts_answers_probes_and_ends_in_time(self):
        pod = self.coordinator()
        with pod.start() as coordinator:
            self.assertEqual(SERVING, health(address_in(coordinator.wait_for("listens at"))))
            self.assertEqual(0, coordinator.stop(pod.spec["terminationGracePeriodSeconds"]), coordinator.lines)
        self.assertTrue(os.listdir(pod.place("/var/lib/medley/state")))

    def test_an_agent_registers_under_its_nodes_name_and_ends_in_time(self):
        with self.coordinator().start() as coordinator:
            pod = self.agent("cpu", "DaemonSet", "agent-cpu", address_in(coordinator.wait_for("listens at")))
            with pod.start() as agent:
                address = address_in(agent.wait_for("listens at"))
                self.assertIn("node rack-1.example at " + address, coordinator.wait_for("node rack-1.example"))
                self.assertEqual(SERVING, health(address))
                self.assertEqual(0, agent.stop(pod.spec["terminationGracePeriodSeconds"]), agent.lines)
            self.assertIn("its agent was stopped", coordinator.wait_for("is lost"))

    def certificate(self, authority, role, name):
        """A folder as `medley certs` makes it."""
        folder = os.path.join(tempfile.mkdtemp(dir=self.folder), name)
        self.certs("issue", folder, "--authority", authority, "--role", role, "--name", name)
        return folder

    @staticmethod
    def mount_secret(pod, folder):
        """What the Secret holds that the pod mounts: the same under Kubernetes' names."""
        os.makedirs(pod.place("/run/medley-tls"))
        for given, in_secret in (("certificate.pem", "tls.crt"), ("key.pem", "tls.key"), ("authority.pem", "ca.crt")):
            shutil.copy(os.path.join(folder, given), pod.place("/run/medley-tls/" + in_secret))

    def certs(self, *arguments):
        subprocess.run([os.path.join(self.programs, "medley"), "certs", *arguments], check=True, capture_output=True, timeout=PATIENCE)

    def probe(self, file):
        """What a probe of Kubernetes' kind "httpGet" with the scheme HTTPS asks: without a certificate, and whose it is does not matter."""
        with open(file, encoding="utf-8") as opened:
            address = opened.read().strip()
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, timeout=PATIENCE, context=anybody)
        self.addCleanup(connection.close)
        connection.request("GET", "/healthz")
        return connection.getresponse().status

    def test_with_certificates_daemons_know_each_other_and_answer_probes(self):
        authority, strangers = (os.path.join(tempfile.mkdtemp(dir=self.folder), name) for name in ("authority", "strangers"))
        for folder in (authority, strangers):
            self.certs("init", folder)
        pod = self.pod("tls", "StatefulSet", "coordinator")
        self.mount_secret(pod, self.certificate(authority, "coordinator", "coordinator"))
        site = pod.place("/http-address")
        with pod.start(MEDLEY_COORDINATOR_HTTP_ADDRESS_FILE=site) as coordinator:
            address = address_in(coordinator.wait_for("listens at"))
            self.assertEqual(200, self.probe(site))
            agents = self.agent("tls", "DaemonSet", "agent-cpu", address)
            self.mount_secret(agents, self.certificate(authority, "agent", "*"))
            its_site = agents.place("/http-address")
            with agents.start(MEDLEY_AGENT_HTTP_ADDRESS_FILE=its_site) as agent:
                coordinator.wait_for("node rack-1.example at ")
                self.assertEqual(200, self.probe(its_site))
                self.assertEqual(0, agent.stop(agents.spec["terminationGracePeriodSeconds"]), agent.lines)
            for signed_by, status in ((authority, 0), (strangers, 1)):
                done = subprocess.run([os.path.join(self.programs, "medley"), "nodes", "--coordinator", address], capture_output=True,
                                      text=True, timeout=PATIENCE,
                                      env={**os.environ, "MEDLEY_CERTIFICATES": self.certificate(signed_by, "viewer", "somebody")})
                self.assertEqual(status, done.returncode, done.stderr)

    def test_an_agent_of_a_job_has_the_jobs_index_and_its_end_is_no_success(self):
        with self.coordinator().start() as coordinator:
            pod = self.agent("kueue", "Job", "agent-queued", address_in(coordinator.wait_for("listens at")))
            with pod.start() as agent:
                coordinator.wait_for("node queued-2 at")
                self.assertEqual(1, agent.stop(pod.spec["terminationGracePeriodSeconds"]), agent.lines)
            self.assertIn("stopping on SIGTERM", "\n".join(agent.lines))

    def test_agents_with_other_devices_understand_their_configuration(self):
        for name in ("agent-nvidia", "agent-amd", "agent-intel"):
            with self.subTest(name=name):
                pod = self.agent("mixed", "DaemonSet", name)
                with open(pod.place("/run/medley/agent.yaml"), encoding="utf-8") as file:
                    device = yaml.safe_load(file)["devices"][0]["name"]
                with pod.start() as agent:
                    # Where there is such a device it is named, and where there is none it is what the agent lacks.
                    line = agent.wait_for(device)
                    self.assertRegex(line, r"info agent: device %s: |^medley-agent: devices\[0\] \(%s\)" % (device, device))
                    self.assertNotIn(".backend", line)

    def test_a_field_that_there_is_not_is_refused(self):
        for pod, file in ((self.coordinator(), "/etc/medley/coordinator-configuration.yaml"),
                          (self.agent("cpu", "DaemonSet", "agent-cpu"), "/run/medley/agent.yaml")):
            with open(pod.place(file), encoding="utf-8") as opened:
                text = opened.read()
            write(pod.place(file), text + "listen_port: 1\n")
            with pod.start() as daemon:
                self.assertIn("listen_port", daemon.wait_for("listen_port"))
                self.assertEqual(2, daemon.end(PATIENCE))

    def test_every_option_is_one_of_the_programs(self):
        options = set()
        for documents in self.overlays.values():
            for controller in of_kind(documents, "StatefulSet", "DaemonSet", "Job"):
                command = " ".join(pod_specs(controller)[0]["containers"][0]["command"])
                options |= {(program, option) for program, rest in re.findall(r"/usr/local/bin/(medley-[a-z]+)([^\n]*)", command)
                            for option in re.findall(r"--[a-z-]+", rest)}
        self.assertEqual({("medley-coordinator", "--config"), ("medley-agent", "--config")}, options)
        for program, option in options:
            shown = subprocess.run([os.path.join(self.programs, program), "--help"], capture_output=True, text=True, check=True)
            self.assertIn(option + " ", shown.stdout)

    def test_the_image_has_what_the_pods_run(self):
        context = os.path.join(self.folder, "context")
        subprocess.run([os.path.join(ROOT, "deploy", "container", "build.sh"), "--programs", self.programs, "--context", context,
                        "--packages", "further-package"], check=True, capture_output=True, timeout=PATIENCE)
        with open(os.path.join(context, "packages.txt"), encoding="utf-8") as file:
            packages = set(file.read().split())
        self.assertLess({"libc6", "libstdc++6", "libucx0", "libdnnl2", "ocl-icd-libopencl1", "further-package"}, packages)
        with open(os.path.join(context, "Containerfile"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertIn("COPY programs/ /usr/local/bin/", lines)
        user = next(line.split()[1] for line in lines if line.startswith("USER "))
        for documents in self.overlays.values():
            for controller in of_kind(documents, "StatefulSet", "DaemonSet", "Job"):
                spec = pod_specs(controller)[0]
                self.assertEqual(user, "%(runAsUser)d:%(runAsGroup)d" % spec["securityContext"])
                for name in re.findall(r"/usr/local/bin/(\S+)", " ".join(spec["containers"][0]["command"])):
                    self.assertTrue(os.access(os.path.join(context, "programs", name), os.X_OK), name)

    def test_an_image_without_a_program_is_refused(self):
        done = subprocess.run([os.path.join(ROOT, "deploy", "container", "build.sh"), "--programs", self.folder, "--context",
                               os.path.join(self.folder, "no-context")], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((1, 1), (done.returncode, done.stderr.count("\n")))
        self.assertIn("medley is not there", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
