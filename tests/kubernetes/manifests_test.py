#!/usr/bin/env python3
"""Every overlay of deploy/kubernetes is built and held against Kubernetes' types and against itself. What each check is for is
broken on purpose, so that a check that finds nothing is noticed."""
import copy
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import kustomization  # noqa: E402
import network  # noqa: E402
import official_schema  # noqa: E402
import pods  # noqa: E402
import references  # noqa: E402
from kustomization import build, pod_specs  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
OVERLAYS = os.path.join(ROOT, "deploy", "kubernetes", "overlays")
CHECKS = references.CHECKS + network.CHECKS + pods.CHECKS


def against_schema(documents):
    return [found for document in documents for found in official_schema.objections(document)]


def overlays():
    return {name: build(os.path.join(OVERLAYS, name)) for name in sorted(os.listdir(OVERLAYS))}


def get(documents, kind, name):
    return next(one for one in documents if one["kind"] == kind and one["metadata"]["name"].startswith(name))


def pod(documents, kind, name):
    return pod_specs(get(documents, kind, name))[0]


def program(documents, kind, name):
    return pod(documents, kind, name)["containers"][0]


def edit(documents, kind, name, before, after):
    """Changes the configuration in a ConfigMap."""
    data = get(documents, kind, name)["data"]
    for key, text in data.items():
        assert before in text, before
        data[key] = text.replace(before, after)


def remove(documents, kind, name):
    documents.remove(get(documents, kind, name))


COORDINATOR = ("StatefulSet", "coordinator")
CPU, NVIDIA = ("DaemonSet", "agent-cpu"), ("DaemonSet", "agent-nvidia")

AGENT_CERTIFICATE = ("Certificate", "agent")

# (check, the overlay, what breaks it, what is then said)
BROKEN = [
    (against_schema, "mixed", lambda d: program(d, *CPU).update(imagePullPolcy="Always"), "V1Container has no such field"),
    (against_schema, "mixed", lambda d: program(d, *CPU)["readinessProbe"]["grpc"].update(port="7071"), "'7071' is no int"),
    (against_schema, "mixed", lambda d: program(d, *CPU)["readinessProbe"]["grpc"].pop("port"), "grpc.port: is required"),
    (against_schema, "mixed", lambda d: program(d, *NVIDIA)["resources"]["limits"].update({"nvidia.com/gpu": 1}), "1 is no str"),
    (against_schema, "mixed", lambda d: program(d, *CPU)["resources"]["limits"].update(memory="8GiB"), "'8GiB' is no quantity"),
    (against_schema, "mixed", lambda d: get(d, *CPU)["spec"].pop("selector"), "spec.selector: is required"),
    (against_schema, "mixed", lambda d: get(d, *CPU).update(apiVersion="extensions/v1"), "extensions/v1 has no such kind"),
    (against_schema, "mixed", lambda d: get(d, *CPU).update(kind="DaemonSets"), "apps/v1 has no such kind"),
    (against_schema, "mixed", lambda d: get(d, *CPU)["metadata"].update(name="Agent_cpu"), "is no name"),
    (against_schema, "mixed", lambda d: pod(d, *CPU).update(tolerations={}), "tolerations: is no list"),
    (against_schema, "kueue", lambda d: get(d, "Job", "agent")["metadata"]["labels"].update({"a/b/c": "d"}), "is no label"),
    (references.missing_names, "mixed", lambda d: remove(d, "ConfigMap", "agent-amd"), "there is no ConfigMap agent-amd"),
    (references.missing_names, "mixed", lambda d: remove(d, "ServiceAccount", "medley"), "there is no ServiceAccount medley"),
    (references.missing_names, "mixed", lambda d: remove(d, "PersistentVolumeClaim", "data"),
     "there is no PersistentVolumeClaim data"),
    (references.missing_names, "mixed", lambda d: remove(d, "Service", "coordinator-pods"), "there is no Service coordinator-pods"),
    (references.missing_volumes, "mixed", lambda d: pod(d, *CPU)["volumes"].pop(), "volume scratch"),
    (references.missing_volumes, "cpu", lambda d: get(d, *COORDINATOR)["spec"].pop("volumeClaimTemplates"), "volume state"),
    (references.missing_files, "cpu", lambda d: program(d, *COORDINATOR)["command"].__setitem__(2, "/etc/medley/other.yaml"),
     "there is no /etc/medley/other.yaml"),
    (references.missing_files, "cpu", lambda d: get(d, "ConfigMap", "agent")["data"].clear(),
     "there is no /etc/medley/agent-configuration.yaml"),
    (references.unmatched_selectors,
     "mixed", lambda d: get(d, *CPU)["spec"]["template"]["metadata"]["labels"].pop("medley/devices"),
     "does not select its own pods"),
    (references.unmatched_selectors, "mixed", lambda d: get(d, *CPU)["spec"]["selector"]["matchLabels"].pop("medley/devices"),
     "selects pods of others"),
    (references.unmatched_selectors, "cpu", lambda d: get(d, "Service", "coordinator")["spec"]["selector"].update(
        {"app.kubernetes.io/component": "coordinators"}), "selects nothing"),
    (references.unmatched_selectors, "cpu", lambda d: get(d, "NetworkPolicy", "agents")["spec"]["ingress"][1]["from"][0]["podSelector"][
        "matchLabels"].update({"app.kubernetes.io/component": "worker"}), "selects nothing"),
    (references.strays, "cpu", lambda d: get(d, *CPU)["metadata"].update(namespace="default"), "is not in medley"),
    (network.closed_services, "cpu", lambda d: get(d, "Service", "coordinator")["spec"]["ports"][0].update(targetPort="http"),
     "no port http"),
    (network.wrong_probes, "cpu", lambda d: program(d, *CPU)["livenessProbe"]["grpc"].update(port=7072), "livenessProbe"),
    (network.wrong_probes, "cpu", lambda d: program(d, *COORDINATOR).pop("startupProbe"), "startupProbe"),
    (network.wrong_listeners, "cpu", lambda d: edit(d, "ConfigMap", "coordinator", ":7070", ":7000"), "listens at {'grpc': 7000}"),
    (network.wrong_listeners, "cpu", lambda d: program(d, *CPU)["ports"][0].update(containerPort=7000), "listens at {'grpc': 7071}"),
    (network.wrong_dials, "cpu", lambda d: edit(d, "ConfigMap", "agent", "coordinator:7070", "coordinator:7000"),
     "dials coordinator:7000"),
    (network.wrong_dials, "cpu", lambda d: get(d, "Service", "coordinator")["metadata"].update(name="other"),
     "dials coordinator:7070"),
    (network.wrong_policies, "cpu", lambda d: get(d, "NetworkPolicy",
     "coordinator")["spec"]["ingress"][0]["ports"][0].update(port=7000),
     "does not listen at (7000, 7000)"),
    (network.wrong_policies, "cpu", lambda d: get(d, "NetworkPolicy",
     "agents")["spec"]["ingress"][1]["ports"][0].update(endPort=40000),
     "does not listen at (32768, 40000)"),
    (network.wrong_policies, "cpu", lambda d: remove(d, "NetworkPolicy", "agents"),
     "no policy lets anything through to (7071, 7071)"),
    (network.open_pods, "cpu", lambda d: remove(d, "NetworkPolicy", "nothing-else"), "no policy that denies"),
    (pods.lax_pods, "cpu", lambda d: pod(d, *CPU)["securityContext"].update(runAsUser=0), "runs as root"),
    (pods.lax_pods, "cpu", lambda d: pod(d, *CPU)["initContainers"][0]["securityContext"].pop("capabilities"),
     "is allowed too much"),
    (pods.lax_pods, "cpu", lambda d: pod(d, *COORDINATOR).pop("automountServiceAccountToken"), "has a token"),
    (pods.lax_pods, "cpu", lambda d: get(d, "ServiceAccount", "medley").pop("automountServiceAccountToken"), "has a token"),
    (pods.lax_pods, "cpu", lambda d: pod(d, *CPU)["volumes"][1].update(hostPath={"path": "/"}), "reaches into its node"),
    (pods.boundless_containers, "cpu", lambda d: program(d, *CPU).pop("resources"), "requests None"),
    (pods.late_movers, "cpu", lambda d: pod(d, *COORDINATOR)["tolerations"].pop(), "stays on a node that is gone"),
    (pods.late_movers, "kueue", lambda d: pod(d, "Job", "agent")["tolerations"][0].pop("tolerationSeconds"),
     "stays on a node that is gone"),
    (pods.hasty_starts, "cpu", lambda d: program(d, *COORDINATOR)["startupProbe"].update(failureThreshold=60), "may take 120 s to start"),
    (pods.hasty_starts, "tls", lambda d: program(d, *COORDINATOR)["startupProbe"].pop("failureThreshold"), "may take 6 s to start"),
    (pods.unwritable_places, "cpu", lambda d: edit(d, "ConfigMap", "coordinator", "/var/lib/medley/state", "/state"),
     "/state cannot be written"),
    (pods.unwritable_places, "cpu", lambda d: program(d, *CPU)["volumeMounts"][1].update(readOnly=True),
     "/var/lib/medley/cache cannot be written"),
    (pods.overfull_agents, "cpu", lambda d: edit(d, "ConfigMap", "agent", "5GiB", "7GiB"), "and may have"),
    (pods.overfull_agents, "cpu", lambda d: edit(d, "ConfigMap", "agent", "host_memory_bytes: 1GiB", ""), "and may have"),
    (pods.overfull_agents, "mixed", lambda d: program(d, *NVIDIA)["resources"]["limits"].update({"nvidia.com/gpu": "8"}),
     "is given 8 devices and lists 1"),
    (pods.shared_nodes, "mixed", lambda d: pod(d, *CPU).pop("affinity"), "may run where others do"),
    (pods.misplaced_settings, "rdma", lambda d: pod(d, *NVIDIA).pop("dnsPolicy"), "cannot look up"),
    (pods.misplaced_settings, "rdma", lambda d: get(d, "Namespace", "medley")["metadata"]["labels"].clear(),
     "refuses the node's network"),
    (pods.misplaced_settings, "mixed", lambda d: pod(d, *CPU).update(hostNetwork=True), "may not change its node's network"),
    (pods.futile_budgets, "kueue", lambda d: get(d, "PodDisruptionBudget", "agent")["spec"].update(minAvailable=4),
     "lets nothing be moved"),
    (against_schema, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE)["spec"].update(issuer="medley"),
     "CertificateSpec has no such field"),
    (against_schema, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE)["spec"].pop("issuerRef"), "spec.issuerRef: is required"),
    (against_schema, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE).update(apiVersion="cert-manager.io/v1alpha2"),
     "has no such kind"),
    (references.missing_names, "cert-manager", lambda d: remove(d, *AGENT_CERTIFICATE), "there is no Secret agent-tls"),
    (references.missing_names, "cert-manager", lambda d: remove(d, "Issuer", "medley"), "there is no Issuer medley"),
    (references.missing_names, "tls", lambda d: pod(d, *CPU)["volumes"][-1]["secret"].update(secretName="other"),
     "there is no Secret other"),
    (network.wrong_probes, "tls", lambda d: program(d, *CPU).update(livenessProbe={"grpc": {"port": 7071}}), "livenessProbe"),
    (network.wrong_probes, "tls", lambda d: program(d, *COORDINATOR)["readinessProbe"]["httpGet"].pop("scheme"), "readinessProbe"),
    (network.wrong_listeners, "tls", lambda d: program(d, *CPU)["env"].pop(), "listens at"),
    (pods.strange_identities, "tls", lambda d: pod(d, *CPU)["volumes"][-1]["secret"].update(secretName="coordinator-tls"),
     "tls.key: /run/medley-tls/tls.key is not in the Secret agent-tls"),
    (pods.strange_identities, "tls", lambda d: program(d, *COORDINATOR)["volumeMounts"].pop(), "is not in the Secret coordinator-tls"),
    (pods.strange_identities, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE)["spec"].update(commonName="agent"),
     "its certificate is of ['medley:agent'], agent"),
    (pods.strange_identities, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE)["spec"]["subject"].update(organizations=["medley"]),
     "its certificate is of ['medley'], *"),
    (pods.strange_identities, "cert-manager", lambda d: get(d, *AGENT_CERTIFICATE)["spec"].pop("dnsNames"),
     "its certificate is not for the host agent"),
    (pods.strange_identities, "cert-manager", lambda d: get(d, "Certificate", "coordinator")["spec"]["usages"].pop(),
     "its certificate is for"),
]


class ManifestsTest(unittest.TestCase):
    def setUp(self):
        self.overlays = overlays()

    def none_of(self, found, overlay):
        if found:
            self.fail("overlay %s:\n  %s" % (overlay, "\n  ".join(found)))

    def test_every_overlay_is_what_kubernetes_takes(self):
        self.assertGreaterEqual(len(self.overlays), 6)
        for name, documents in self.overlays.items():
            self.none_of(against_schema(documents), name)

    def test_every_overlay_agrees_with_itself(self):
        for name, documents in self.overlays.items():
            for check in CHECKS:
                self.none_of(check(documents), name)

    def test_the_pods_of_the_job_are_those_of_the_daemons(self):
        kueue, cpu = self.overlays["kueue"], self.overlays["cpu"]
        self.assertEqual([], pods.strange_jobs(kueue, cpu))
        program(kueue, "Job", "agent")["resources"]["requests"]["cpu"] = "3"
        self.assertEqual(["Job agent-queued: differs from the daemons in containers.resources.requests.cpu"], pods.strange_jobs(kueue, cpu))

    def test_the_components_for_certificates_are_for_jobs_as_well(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
                json.dump({"kind": "Kustomization", "resources": [os.path.join(OVERLAYS, "kueue")],
                           "components": [os.path.join(OVERLAYS, "..", "components", name) for name in ("tls", "cert-manager")]}, file)
            documents = build(folder)
        for document in documents:
            kustomization.set_namespace(kustomization.Resource(document), "medley")
        self.assertIn("tls", references.configuration_of(documents, get(documents, "Job", "agent")))
        for check in (against_schema, *CHECKS):
            self.none_of(check(documents), "kueue with certificates")

    def test_the_coordinator_listens_where_clients_look_for_it(self):
        with open(os.path.join(ROOT, "runtime", "wire", "address.h"), encoding="utf-8") as file:
            port = network.default_port(file.read())
        for documents in self.overlays.values():
            self.assertEqual(port, network.container_ports(get(documents, *COORDINATOR))["grpc"])

    def test_everything_that_can_be_broken_is_found(self):
        self.assertEqual(set(CHECKS) | {against_schema}, {check for check, _, _, _ in BROKEN}, "every check is broken once")
        for check, name, break_it, said in BROKEN:
            with self.subTest(check=check.__name__, said=said):
                documents = copy.deepcopy(self.overlays[name])
                self.assertEqual([], check(documents))
                break_it(documents)
                found = check(documents)
                self.assertTrue(any(said in line for line in found), found)


if __name__ == "__main__":
    unittest.main()
