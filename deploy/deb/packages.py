#!/usr/bin/env python3
"""The packages, built for the tests, and what is in one of them.

    packages.py ARCHIVE     builds them and puts them into a tar file, from which each test takes them
"""
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "integration"))
import run_cases  # noqa: E402,F401

PROGRAMS = {"medley": "cli", "medley-coordinator": "coordinator/daemon", "medley-agent": "agent/daemon",
            "medley-worker": "agent/worker"}
ARCHIVE = os.path.join(HERE, "packages.tar")
EPOCH = 1767225600  # of all packages here: the first second of 2026


class Package:
    """A .deb, taken apart by dpkg-deb."""

    def __init__(self, path):
        self.path = path
        self.control = self._tar("--ctrl-tarfile")
        self.content = self._tar("--fsys-tarfile")
        self.fields = {}
        for line in subprocess.check_output(["dpkg-deb", "--field", path], text=True).splitlines():
            if not line.startswith(" "):
                name, value = line.split(":", 1)
                self.fields[name] = value.strip()

    def _tar(self, option):
        """(member, bytes of a file or None) by path without the leading ./"""
        read = subprocess.check_output(["dpkg-deb", option, self.path])
        with tarfile.open(fileobj=io.BytesIO(read)) as tar:
            return {member.name[2:]: (member, tar.extractfile(member).read() if member.isfile() else None)
                    for member in tar.getmembers()}

    def text(self, path):
        return self.content[path][1].decode()

    def digest(self):
        with open(self.path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()


def programs(folder):
    """Puts the four programs into `folder`: Bazel's, or those of $MEDLEY_BINARIES."""
    given = os.environ.get("MEDLEY_BINARIES")
    os.makedirs(folder)
    for name, built in PROGRAMS.items():
        shutil.copy(os.path.join(given or os.path.join(os.getcwd(), built), name), folder)
        os.chmod(os.path.join(folder, name), 0o755)
    return folder


def says_version(binaries):
    said = subprocess.check_output([os.path.join(binaries, "medley"), "--version"], text=True)
    return said.removeprefix("medley ").strip()


def run_build(output, binaries, *options, script=os.path.join(HERE, "build.sh"), **environment):
    """The finished process of build.sh; SOURCE_DATE_EPOCH is EPOCH unless `environment` says otherwise. None unsets."""
    given = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "DEBFULLNAME": None, "DEBEMAIL": None, **environment}
    return subprocess.run(["bash", script, "--output", output, "--binaries", binaries, *options], capture_output=True, text=True,
                          env={name: value for name, value in given.items() if value is not None})


def build(output, binaries, *options, **environment):
    """Packages by name."""
    done = run_build(output, binaries, *options, **environment)
    if done.returncode != 0:
        raise AssertionError("build.sh ended with %d:\n%s%s" % (done.returncode, done.stdout, done.stderr))
    return by_name(done.stdout.split())


def by_name(paths):
    return {package.fields["Package"]: package for package in map(Package, paths)}


def build_all(directory):
    """Packages by name, of the programs in `directory`/programs."""
    binaries = os.path.join(directory, "programs")
    return build(os.path.join(directory, "packages"), binaries, "--version", says_version(binaries) + "+test")


def unpack(directory):
    """The same from ARCHIVE."""
    folder = os.path.join(directory, "packages")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return by_name(os.path.join(folder, name) for name in sorted(os.listdir(folder)))


def fields_of(message):
    """The names of the fields of a message, by the proto files."""
    proto = ""
    for name in ("config", "cluster"):
        with open(os.path.join(HERE, "..", "..", "proto", "medley", "v1", name + ".proto"), encoding="utf-8") as file:
            proto += file.read()
    body = re.search(r"^message %s \{$(.*?)^\}" % message, proto, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"(\w+) = \d+ *[;\[]", re.sub(r"//.*", "", body))


class PackagesTest(unittest.TestCase):
    """The packages of these programs, and their content in one tree; built once for all tests where Bazel runs them."""

    maxDiff = None
    directory = None

    @staticmethod
    def setUpClass():
        cls = PackagesTest
        if cls.directory:
            return
        cls.directory = tempfile.mkdtemp(prefix="packages.", dir=os.environ.get("TEST_TMPDIR"))
        unittest.addModuleCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.binaries = programs(os.path.join(cls.directory, "programs"))
        cls.version = says_version(cls.binaries) + "+test"
        given = "MEDLEY_BINARIES" in os.environ
        cls.packages = build_all(cls.directory) if given else unpack(cls.directory)
        cls.root = os.path.join(cls.directory, "root")
        for package in cls.packages.values():
            subprocess.check_call(["dpkg-deb", "--extract", package.path, cls.root])

    def path(self, name):
        return os.path.join(self.root, name)


def main(archive):
    with tempfile.TemporaryDirectory() as directory:
        programs(os.path.join(directory, "programs"))
        made = build_all(directory)
        with tarfile.open(archive, "w") as tar:
            for package in made.values():
                tar.add(package.path, os.path.basename(package.path))


if __name__ == "__main__":
    main(sys.argv[1])
