#!/usr/bin/env python3
"""The chart is no second truth: with an overlay's values it makes what the overlay makes, resource by resource."""
import copy
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "integration")]
sys.dont_write_bytecode = True
import network  # noqa: E402
import official_schema  # noqa: E402
import pods  # noqa: E402
import references  # noqa: E402
import run_cases  # noqa: E402
from kustomization import build, hash_of, pod_specs, rename, Resource  # noqa: E402

CHART = os.path.join(ROOT, "deploy", "kubernetes", "chart")
OVERLAYS = os.path.join(ROOT, "deploy", "kubernetes", "overlays")
NAMES = sorted(os.listdir(OVERLAYS))
NAMESPACE = "medley"
GO_SOURCES = "/usr/share/gocode"
NEEDED = (("go", shutil.which("go"), "golang-go"),
          ("sprig", os.path.isdir(GO_SOURCES + "/src/github.com/Masterminds/sprig"), "golang-github-masterminds-sprig-dev"),
          ("yaml.v3", os.path.isdir(GO_SOURCES + "/src/gopkg.in/yaml.v3"), "golang-gopkg-yaml.v3-dev"))
try:
    import jsonschema
except ImportError:
    jsonschema = None


def lacking():
    """Why charts cannot be rendered here, or None."""
    packages = [package for _, there, package in NEEDED if not there] + ([] if jsonschema else ["python3-jsonschema"])
    return "what renders charts is not there: apt-get install --no-install-recommends " + " ".join(packages) if packages else None


def values_of(overlay):
    return os.path.join(OVERLAYS, overlay, "values.yaml")


def in_order(documents):
    return sorted(documents, key=lambda one: (one["kind"], one["metadata"]["name"]))


def comparable(documents):
    """By title, without what two ways of writing may differ in: comments in a configuration, and so the hash of its ConfigMap."""
    resources = [Resource(copy.deepcopy(one)) for one in documents]
    for resource in resources:
        if resource.kind == "ConfigMap":
            hashed = "-" + hash_of(resource.document)
            assert resource.name.endswith(hashed), "%s is not named after its contents, which give %s" % (resource.name, hashed)
    rename(resources, lambda one: one.kind == "ConfigMap", lambda one: one.name[:-11])
    for resource in resources:
        if resource.kind == "ConfigMap":
            resource.document["data"] = {name: yaml.safe_load(text) for name, text in resource.document["data"].items()}
    return {references.title(one.document): one.document for one in resources}


@unittest.skipIf(lacking(), lacking())
class ChartTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = os.path.join(cls.folder, "chart_renderer")
        environment = {"PATH": os.environ["PATH"], "HOME": cls.folder, "GOPATH": GO_SOURCES, "GO111MODULE": "off", "GOFLAGS": "",
                       "GOCACHE": os.path.join(cls.folder, "cache"), "GOPROXY": "off"}
        # Bazel's files are links, which Go does not build.
        source = shutil.copy(os.path.join(HERE, "chart_renderer.go"), cls.folder)
        done = subprocess.run(["go", "build", "-o", cls.program, source], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def run_renderer(self, *files, chart=CHART):
        return subprocess.run([self.program, chart, NAMESPACE, *files], capture_output=True, text=True)

    def render(self, *files):
        done = self.run_renderer(*files)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def render_overlay(self, overlay):
        return self.render(values_of(overlay))

    def file(self, values):
        """A file of values, which are JSON, and so YAML."""
        handle, path = tempfile.mkstemp(dir=self.folder, suffix=".yaml")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file)
        return path

    @staticmethod
    def documents(made):
        """The resources, NOTES aside."""
        return [one for name, text in made["files"].items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one]

    @functools.cached_property
    def schema(self):
        with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as file:
            return json.load(file)

    def objections(self, values):
        """What Helm would say against values, before it renders any."""
        checker = jsonschema.Draft7Validator(self.schema)
        return ["%s: %s" % (".".join(map(str, error.absolute_path)), error.message) for error in checker.iter_errors(values)]

    def test_it_makes_what_each_overlay_makes(self):
        for name in NAMES:
            with self.subTest(overlay=name):
                made, wanted = comparable(self.documents(self.render_overlay(name))), comparable(build(os.path.join(OVERLAYS, name)))
                # Helm makes the namespace itself.
                del wanted["Namespace " + NAMESPACE]
                self.assertEqual(sorted(wanted), sorted(made))
                for title, document in wanted.items():
                    self.assertEqual(document, made[title], title)

    def test_a_difference_would_be_noticed(self):
        whole = self.documents(self.render_overlay("mixed"))
        for index in range(len(whole)):
            changed = copy.deepcopy(whole)
            changed[index]["metadata"]["labels"] = {"other": "label"}
            self.assertNotEqual(comparable(whole), comparable(changed))
        changed = copy.deepcopy(whole)
        next(one for one in changed if one["kind"] == "ConfigMap")["data"]["more.yaml"] = "a: 1\n"
        with self.assertRaisesRegex(AssertionError, "is not named after its contents"):
            comparable(changed)

    def test_what_it_makes_is_what_kubernetes_takes(self):
        for name in NAMES:
            for document in self.documents(self.render_overlay(name)):
                self.assertEqual([], official_schema.objections(document), name)

    def test_the_default_is_the_overlay_cpu(self):
        self.assertEqual(self.documents(self.render()), self.documents(self.render_overlay("cpu")))

    def test_the_notes_say_what_the_overlays_say_of_the_namespace(self):
        for name in NAMES:
            labels = next(one for one in build(os.path.join(OVERLAYS, name)) if one["kind"] == "Namespace")["metadata"]["labels"]
            (key, value), = labels.items()
            notes = self.render_overlay(name)["files"]["NOTES.txt"]
            self.assertIn("kubectl label namespace medley %s=%s\n" % (key, value), notes)
            self.assertEqual(name in ("tls", "cert-manager"), "There are no certificates" not in notes)
            self.assertNotIn("<no value>", notes)

    def test_values_that_no_overlay_has(self):
        existing, class_name = "site-data", "fast"
        tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
        documents = self.documents(self.render(values_of("cert-manager"), self.file({
            "image": {"repository": "registry.example/medley", "tag": "1", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
            "coordinator": {"configuration": {"lease_seconds": 12}, "nodeSelector": {"a": "b"}, "state": {"storageClass": class_name}},
            "data": {"existingClaim": existing},
            "agentDefaults": {"tolerations": tolerations, "nodeSelector": {"pool": "training"}},
            "agents": {"nvidia": {"tolerations": []}, "nvidia-large": {"enabled": True, "resources": {"limits": {"nvidia.com/gpu": "8"}}}},
            "queue": {"enabled": True, "pods": 7, "name": "night"},
            "networkPolicies": {"enabled": False},
            "tls": {"agentSecret": "agents"},
            "certManager": {"issuerRef": {"name": "site", "kind": "ClusterIssuer"}}})))
        for document in documents:
            self.assertEqual([], official_schema.objections(document))
        by_title = comparable(documents)
        self.assertFalse([title for title in by_title if title.split()[0] in ("NetworkPolicy", "Issuer", "PersistentVolumeClaim")])
        coordinator, job = by_title["StatefulSet coordinator"], by_title["Job agent-queued"]
        self.assertEqual(12, by_title["ConfigMap coordinator"]["data"]["coordinator-configuration.yaml"]["lease_seconds"])
        self.assertEqual(class_name, coordinator["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"])
        self.assertEqual({"a": "b"}, pod_specs(coordinator)[0]["nodeSelector"])
        self.assertEqual((7, 7, "night"), (job["spec"]["completions"], job["spec"]["parallelism"],
                                           job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]))
        self.assertEqual(6, by_title["PodDisruptionBudget agent-queued"]["spec"]["minAvailable"])
        nvidia, large, cpu = (pod_specs(by_title["DaemonSet agent-" + kind])[0] for kind in ("nvidia", "nvidia-large", "cpu"))
        self.assertEqual("8", large["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.assertEqual(([], tolerations), (nvidia["tolerations"], cpu["tolerations"]))
        self.assertEqual({"name": "site", "kind": "ClusterIssuer"}, by_title["Certificate agent"]["spec"]["issuerRef"])
        for document in references.of_kind(documents, *references.CONTROLLERS):
            spec = pod_specs(document)[0]
            self.assertEqual([{"name": "registry"}], spec["imagePullSecrets"])
            self.assertEqual({("registry.example/medley:1", "Always")},
                             {(one["image"], one["imagePullPolicy"]) for one in references.containers(spec)})
            self.assertIn({"name": "data", "persistentVolumeClaim": {"claimName": existing}}, spec["volumes"])
            self.assertIn("coordinator-tls" if document["kind"] == "StatefulSet" else "agents",
                          [one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one])

    def test_queued_agents_with_certificates_agree_with_themselves(self):
        documents = self.documents(self.render(values_of("cert-manager"), self.file({"queue": {"enabled": True}})))
        for check in (network.wrong_probes, network.wrong_listeners, network.wrong_policies, references.missing_names,
                      references.missing_volumes, references.missing_files, pods.lax_pods, pods.strange_identities):
            self.assertEqual([], check(documents))

    def test_what_makes_no_sense_is_refused_with_its_reason(self):
        for values, said in (
                ({"networkPolicies": {"enabled": False}}, "networkPolicies.enabled: false lets everybody in the cluster submit jobs"),
                ({"certManager": {"enabled": True}}, "certManager.enabled: true makes certificates that nobody shows"),
                ({"agents": {"cpu": {"configuration": {"listen_address": "0.0.0.0:1"}}}},
                 "agents.cpu.configuration.listen_address: is the chart's to say"),
                ({"coordinator": {"configuration": {"tls": {}}}}, "coordinator.configuration.tls: is the chart's to say"),
                ({"queue": {"enabled": True, "configuration": {"name": "n"}}}, "queue.configuration.name: is the chart's to say"),
                ({"image": {"tag": ""}}, "image.tag: must be given")):
            done = self.run_renderer(self.file(values))
            self.assertEqual(1, done.returncode)
            self.assertIn(said, done.stderr)

    def test_the_schema_takes_what_there_is_and_nothing_else(self):
        for name in NAMES:
            self.assertEqual([], self.objections(self.render_overlay(name)["values"]), name)
        for wrong, said in (
                ({"agent": {}}, "'agent' was unexpected"), ({"image": {"name": "medley"}}, "'name' was unexpected"),
                ({"image": {"pullPolicy": "always"}}, "image.pullPolicy: 'always' is not one of"),
                ({"queue": {"pods": 1}}, "queue.pods: 1 is less than the minimum of 2"),
                ({"queue": {"pods": 2.5}}, "is not of type 'integer'"),
                ({"tls": {"enabled": "yes"}}, "tls.enabled: 'yes' is not of type 'boolean'"),
                ({"data": {"size": "200GiB"}}, "data.size: '200GiB' does not match"),
                ({"agents": {"tpu": {"resources": {}}}}, "agents.tpu: 'enabled' is a required property"),
                ({"agents": {"CPU": {"enabled": True}}}, "'CPU' does not match"), ({"agents": {"queued": {"enabled": True}}}, "agents: "),
                ({"agents": {"cpu": {"device": []}}}, "agents.cpu: Additional properties"),
                ({"coordinator": {"tolerations": [{"effect": "Never"}]}}, "coordinator.tolerations.0.effect: "),
                ({"certManager": {"issuerRef": {"kind": "ClusterIssuer"}}}, "'name' is a dependency of 'kind'"),
                ({"hostNetwork": {"nodes": "10.0.0.0"}}, "hostNetwork.nodes: ")):
            values = self.render()["values"]
            for key, value in wrong.items():
                values[key] = {**values.get(key, {}), **{name: {**values[key].get(name, {}), **one} if key == "agents" else one
                                                         for name, one in value.items()}}
            self.assertTrue(any(said in line for line in self.objections(values)), (wrong, self.objections(values)))


class ValuesTest(unittest.TestCase):
    def test_every_value_says_what_it_is_for(self):
        """A comment stands right above each value, or above the values that it begins."""
        with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        # In agents and queue fields have the names, and the meaning, that they have in agentDefaults.
        known = set(yaml.safe_load("\n".join(lines))["agentDefaults"]) | {"enabled"}
        undescribed, top = [], None
        for before, line in zip([""] + lines, lines):
            found = re.fullmatch(r"( *)([A-Za-z]+):(.*)", line)
            if not found:
                continue
            depth, key, rest = len(found.group(1)) // 2, found.group(2), found.group(3)
            top = key if depth == 0 else top
            begins = rest == ""
            if depth <= (2 if top == "agents" else 1) and not begins and not before.lstrip().startswith("#"):
                if not (top in ("agents", "queue") and key in known):
                    undescribed.append(line)
        self.assertEqual([], undescribed)

    def test_the_chart_has_the_version_of_the_programs(self):
        with open(os.path.join(ROOT, "runtime", "base", "version.h"), encoding="utf-8") as file:
            version = re.search(r'kMedleyVersion = "([^"]+)"', file.read()).group(1)
        with open(os.path.join(CHART, "Chart.yaml"), encoding="utf-8") as file:
            chart = yaml.safe_load(file)
        self.assertEqual((version, version), (chart["appVersion"], chart["version"].rpartition(".")[0]))

    def test_every_overlay_has_its_values(self):
        self.assertGreaterEqual(len(NAMES), 6)
        self.assertEqual([], [name for name in NAMES if not os.path.isfile(values_of(name))])
        self.assertTrue(glob.glob(os.path.join(CHART, "templates", "*.yaml")))


if __name__ == "__main__":
    run_cases.main()
