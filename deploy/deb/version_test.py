#!/usr/bin/env python3
"""Which version packages have, and what build.sh refuses."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402


class VersionTest(unittest.TestCase):
    """With daemons that are small, so that it is soon done."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="version.", dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.binaries = packages.programs(os.path.join(cls.directory, "programs"))
        cls.said = packages.says_version(cls.binaries)
        for name in set(packages.PROGRAMS) - {"medley"}:
            shutil.copy(shutil.which("true"), os.path.join(cls.binaries, name))
        cls.output = os.path.join(cls.directory, "packages")

    def git(self, *arguments):
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.invalid"]
        subprocess.check_call(["git", *identity, "-C", self.tree, *arguments], stdout=subprocess.DEVNULL,
                              env={**os.environ, "GIT_COMMITTER_DATE": "2026-01-31T12:00:00Z"})

    def built_version(self):
        done = packages.run_build(self.output, self.binaries, script=os.path.join(self.tree, "deploy/deb/build.sh"),
                                  SOURCE_DATE_EPOCH=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        return packages.Package(done.stdout.split()[0])

    def test_the_version_says_of_which_commit_it_is(self):
        self.tree = os.path.join(self.directory, "tree")
        for folder in ("deploy/deb", "examples", "profiles", "proto/medley/v1"):
            shutil.copytree(os.path.join(packages.HERE, "..", "..", folder), os.path.join(self.tree, folder))
        done = packages.run_build(self.output, self.binaries, script=os.path.join(self.tree, "deploy/deb/build.sh"),
                                  SOURCE_DATE_EPOCH=None, GIT_CEILING_DIRECTORIES=self.directory)
        self.assertEqual(done.stderr, "build.sh: %s is no git checkout; give --version and SOURCE_DATE_EPOCH\n" % self.tree)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")
        package = self.built_version()
        self.assertRegex(package.fields["Version"], r"^%s\+git20260131120000\.[0-9a-f]{7,}$" % re.escape(self.said))
        self.assertEqual(package.content["usr/sbin/medley-coordinator"][0].mtime, 1769860800)
        self.git("tag", "v" + self.said)
        self.assertEqual(self.built_version().fields["Version"], self.said)
        with open(os.path.join(self.tree, "deploy/deb/copyright"), "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertRegex(self.built_version().fields["Version"], r"\+git.*\.changed$")

    def test_what_is_wrong_is_said_in_one_line(self):
        for options, expected in [
                (["--version", "9.9"], '--version: "9.9" does not begin with %s' % self.said),
                (["--version", self.said + "+a b"], "is no version of a Debian package"),
                (["--binaries", "/nonexistent"], "/nonexistent/medley"),
                (["--colour"], "--colour: no such option")]:
            with self.subTest(options=options):
                done = packages.run_build(self.output, self.binaries, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(expected, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    run_cases.main()
