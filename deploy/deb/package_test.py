#!/usr/bin/env python3
"""What the packages hold and say of themselves, and that the same programs always give the same bytes."""
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402

# Those of the command line that are as many as the sources have.
MANY = r"usr/share/doc/medley/examples/[\w-]+\.yaml|usr/share/doc/medley/proto/\w+\.proto|usr/share/medley/profiles/[\w-]+\.yaml"


def files_of(name):
    """Those of every package, by name."""
    return {"usr/share/doc/%s/copyright" % name, "usr/share/doc/%s/changelog.gz" % name}


FILES = {
    "medley-coordinator": files_of("medley-coordinator") | {
        "etc/medley/coordinator.yaml", "lib/systemd/system/medley-coordinator.service", "usr/lib/medley/medley-coordinator",
        "usr/sbin/medley-coordinator", "usr/share/man/man8/medley-coordinator.8.gz"},
    "medley-agent": files_of("medley-agent") | {
        "etc/medley/agent.yaml", "lib/systemd/system/medley-agent.service", "usr/lib/medley/medley-agent",
        "usr/lib/medley/medley-worker", "usr/sbin/medley-agent", "usr/share/man/man8/medley-agent.8.gz"},
    "medley": files_of("medley") | {
        "usr/lib/medley/medley", "usr/bin/medley", "usr/share/man/man1/medley.1.gz",
        "usr/share/bash-completion/completions/medley", "usr/share/zsh/vendor-completions/_medley",
        "usr/share/fish/vendor_completions.d/medley.fish"},
}


class PackageTest(packages.PackagesTest):
    def test_the_same_programs_give_the_same_bytes(self):
        # Nothing of where, when, by whom and in which language it was done.
        copies = packages.programs(os.path.join(self.directory, "other", "programs"))
        mask = os.umask(0o077)
        try:
            again = packages.build(os.path.join(self.directory, "other", "packages"), copies, "--version", self.version,
                                   TZ="Asia/Tokyo", LC_ALL="C.UTF-8", HOME="/nonexistent")
        finally:
            os.umask(mask)
        self.assertEqual({name: package.digest() for name, package in again.items()},
                         {name: package.digest() for name, package in self.packages.items()})

    def test_there_are_these_files_and_no_others(self):
        self.assertEqual(set(self.packages), set(FILES))
        for name, expected in FILES.items():
            found = {path for path, (member, _) in self.packages[name].content.items() if not member.isdir()}
            more = {path for path in found if re.fullmatch(MANY, path)}
            self.assertEqual(found - more, expected)
            self.assertEqual(bool(more), name == "medley")
        for path in ("doc/medley/examples/bible.yaml", "doc/medley/proto/job.proto", "medley/profiles/T4-16.yaml"):
            self.assertIn("usr/share/" + path, self.packages["medley"].content)

    def test_owners_modes_and_times(self):
        for name, package in self.packages.items():
            for path, (member, _) in {**package.content, **package.control}.items():
                with self.subTest(package=name, path=path):
                    self.assertEqual((member.uid, member.gid, member.mtime), (0, 0, packages.EPOCH))
                    program = path.startswith("usr/lib/medley/") or path in ("postinst", "postrm", "prerm")
                    if not member.issym():
                        self.assertEqual(oct(member.mode), oct(0o755 if member.isdir() or program else 0o644))

    def test_links_lead_to_programs_of_the_same_package(self):
        for name, package in self.packages.items():
            links = {path: member.linkname for path, (member, _) in package.content.items() if member.issym()}
            self.assertEqual(set(map(os.path.basename, links)), {name})
            for path, to in links.items():
                self.assertIn(os.path.normpath(os.path.join(os.path.dirname(path), to)), package.content)

    def test_control_fields(self):
        needs = {"medley-coordinator": ["libgrpc++", "libsqlite3-0", "adduser"],
                 "medley-agent": ["libgrpc++", "libucx0", "libdnnl", "adduser"], "medley": ["libgrpc++"]}
        for name, package in self.packages.items():
            with self.subTest(package=name):
                fields = package.fields
                self.assertEqual(fields["Version"], self.version)
                self.assertEqual(fields["Architecture"],
                                 subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip())
                self.assertGreater(int(fields["Installed-Size"]), 1000)
                for needed in ["libc6 (>= 2.", "libstdc++6", "libabsl", *needs[name]]:
                    self.assertIn(needed, fields["Depends"])
                self.assertNotIn("@", fields["Depends"] + fields["Description"])
                self.assertRegex(fields["Maintainer"], r"^\S.* <\S+@\S+>$")
        for name in ("medley-coordinator", "medley"):
            self.assertNotIn("libucx0", self.packages[name].fields["Depends"])

    def test_configuration_and_checksums_are_listed(self):
        for name, package in self.packages.items():
            configuration = {path for path in package.content if path.startswith("etc/") and path.endswith(".yaml")}
            listed = package.control["conffiles"][1].decode().split() if "conffiles" in package.control else []
            self.assertEqual({path.lstrip("/") for path in listed}, configuration)
            sums = dict(reversed(line.split("  ")) for line in package.control["md5sums"][1].decode().splitlines())
            self.assertEqual(sums, {path: hashlib.md5(read).hexdigest() for path, (_, read) in package.content.items()
                                    if read is not None})

    def test_maintainer_scripts_are_for_their_own_package(self):
        for name in ("medley-coordinator", "medley-agent"):
            for script in ("postinst", "prerm", "postrm"):
                text = self.packages[name].control[script][1].decode()
                subprocess.run(["sh", "-n"], input=text, text=True, check=True)
                self.assertIn(name + ".service", text)
                self.assertNotIn("@", text)

    def test_the_changelog_is_of_this_version(self):
        for name, package in self.packages.items():
            text = gzip.decompress(package.content["usr/share/doc/%s/changelog.gz" % name][1]).decode()
            self.assertTrue(text.startswith("medley (%s) " % self.version))
            self.assertIn("Thu, 01 Jan 2026 00:00:00 +0000", text)

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian")
    def test_lintian_finds_no_error(self):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error",
                               *(package.path for package in self.packages.values())], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    run_cases.main()
