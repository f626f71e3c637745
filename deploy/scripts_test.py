#!/usr/bin/env python3
"""The scripts say how they are called, and what is wrong with how they were, before they install or build anything."""
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # What would change the machine only says that it was called.
        self.called = os.path.join(self.folder, "called")
        for name in ("apt-get", "bazel", "sudo"):
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\necho %s >> %s\nexit 1\n" % (name, self.called))
            os.chmod(path, 0o755)

    def run_script(self, name, *arguments):
        environment = {**os.environ, "PATH": self.folder + ":" + os.environ["PATH"]}
        done = subprocess.run(["bash", os.path.join(HERE, name), *arguments], cwd=self.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertFalse(os.path.exists(self.called), done)
        return done

    def test_help_is_an_answer(self):
        for name in ("gpu-bundle.sh", "install-packages.sh", "quickstart.sh"):
            for option in ("-h", "--help"):
                with self.subTest(name, option=option):
                    done = self.run_script(name, option)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(done.stdout.startswith("usage: deploy/" + name), done.stdout)

    def test_what_is_wrong_ends_with_2(self):
        cases = [("gpu-bundle.sh", ("--folder", "x"), "usage: "), ("install-packages.sh", ("--list",), "--list is no file"),
                 ("install-packages.sh", ("none.txt",), "none.txt is no file"), ("quickstart.sh", ("--step",), "usage: "),
                 ("quickstart.sh", ("--steps",), '--steps: "" is not a whole number above 0\n'),
                 ("quickstart.sh", ("--steps", "0"), '--steps: "0" is not a whole number above 0\n')]
        for name, arguments, wanted in cases:
            with self.subTest(name, arguments=arguments):
                done = self.run_script(name, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(wanted, done.stderr)

    def test_no_folder_but_a_bundle_is_replaced_by_one(self):
        folder = os.path.join(self.folder, "my work")
        os.mkdir(folder)
        with open(os.path.join(folder, "thesis"), "w") as file:
            file.write("kept")
        done = self.run_script("gpu-bundle.sh", folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(folder + " is there already", done.stderr)
        self.assertEqual(os.listdir(folder), ["thesis"])


if __name__ == "__main__":
    unittest.main()
