#!/usr/bin/env python3
"""kustomization.py builds what kustomize builds, and refuses what it does not know."""
import json
import os
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
import run_cases  # noqa: E402
from kustomization import Unbuildable, apply_operation, build, hash_of  # noqa: E402

KUBERNETES = os.path.join(ROOT, "deploy", "kubernetes")


def real_kustomize():
    """The command that builds a folder, or why there is none."""
    if shutil.which("kubectl") is None:
        return None, "there is no kubectl"
    version = json.loads(subprocess.run(["kubectl", "version", "--client", "--output=json"], capture_output=True, check=True).stdout)
    number = version.get("kustomizeVersion", "v0")
    if int(number.lstrip("v").split(".")[0]) < 5:
        return None, "its kubectl has kustomize %s; 5 is needed" % number
    return ["kubectl", "kustomize"], None


def in_order(documents):
    return sorted(documents, key=lambda one: (one["kind"], one["metadata"]["name"]))


class KustomizationTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def kustomization(self, *lines):
        self.write("kustomization.yaml", "kind: Kustomization\n" + "\n".join(lines))
        return build(self.folder)

    def test_overlays_are_built_as_kustomize_builds_them(self):
        command, why = real_kustomize()
        if command is None:
            self.skipTest(why)
        # Bazel's files are links, and kustomize follows none that lead out of a folder.
        copy = os.path.join(self.folder, "kubernetes")
        shutil.copytree(KUBERNETES, copy)
        names = sorted(os.listdir(os.path.join(copy, "overlays")))
        self.assertGreaterEqual(len(names), 6)
        for name in names:
            path = os.path.join(copy, "overlays", name)
            done = subprocess.run([*command, path], capture_output=True, text=True)
            self.assertEqual((0, ""), (done.returncode, done.stderr), name)
            self.assertEqual(in_order(yaml.safe_load_all(done.stdout)), in_order(build(path)), name)

    def test_the_hash_of_a_config_map_is_kustomizes(self):
        # As kustomize 5.5.0 has named it.
        self.assertEqual("69tkbck2m5", hash_of({"data": {"a.yaml": "a: <b> & \"c\"\nd: \u00e9\n"}}))

    def test_references_follow_their_names(self):
        self.write("pod.yaml", "kind: Job\nmetadata: {name: one}\nspec: {template: {spec: {containers: [{name: c, image: i}], "
                               "volumes: [{name: v, configMap: {name: m}}]}}}\n")
        self.write("file", "text\n")
        job, config_map = self.kustomization("resources: [pod.yaml]", "nameSuffix: -x", "configMapGenerator: [{name: m, files: [file]}]")
        self.assertEqual("one-x", job["metadata"]["name"])
        self.assertEqual(job["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"], config_map["metadata"]["name"])
        self.assertTrue(config_map["metadata"]["name"].startswith("m-x-"))

    def test_what_is_not_known_or_not_there_is_refused(self):
        self.write("one.yaml", "kind: Role\nmetadata: {name: one}\n")
        for line, said in (("replicas: [{name: a, count: 2}]", "replicas is beyond what is known here"),
                           ("resources: [two.yaml]", "No such file"), ("components: [nowhere]", "No such file"),
                           ("configMapGenerator: [{name: m, files: [nothing]}]", "No such file"),
                           ("resources: [one.yaml, one.yaml]", "given twice"),
                           ("patches: [{target: {kind: Job}, patch: '[]'}]", "nothing is")):
            with self.assertRaisesRegex(Unbuildable, said):
                self.kustomization(line)

    def test_patches_change_what_they_name_alone(self):
        document = {"a": {"b/c": [1, 3]}}
        for operation in ({"op": "add", "path": "/a/b~1c/1", "value": 2}, {"op": "add", "path": "/a/b~1c/-", "value": 4},
                          {"op": "replace", "path": "/a/b~1c/0", "value": 0}, {"op": "add", "path": "/d", "value": {}},
                          {"op": "remove", "path": "/a/b~1c/2"}):
            apply_operation(document, operation, "patch")
        self.assertEqual({"a": {"b/c": [0, 2, 4]}, "d": {}}, document)
        for operation in ({"op": "replace", "path": "/e", "value": 1}, {"op": "remove", "path": "/a/e"},
                          {"op": "add", "path": "/e/f", "value": 1}, {"op": "replace", "path": "/a/b~1c/3", "value": 1}):
            with self.assertRaisesRegex(Unbuildable, "there is no such place"):
                apply_operation(document, operation, "patch")


if __name__ == "__main__":
    run_cases.main()
