#!/usr/bin/env python3
"""systemd's units: that they agree with the packages around them, and what systemd itself says of them."""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402

# How much a service is exposed by systemd-analyze's reckoning, 0 to 10, and may be at most.
MOST_EXPOSED = {"medley-coordinator": 2.0, "medley-agent": 2.5}


class UnitTest(packages.PackagesTest):
    def unit(self, name):
        return self.packages[name].text("lib/systemd/system/%s.service" % name)

    def value(self, name, key):
        """Of a key that stands once in a unit."""
        found = re.findall(r"(?m)^%s=(.*)$" % key, self.unit(name))
        self.assertEqual(len(found), 1, "%s in %s" % (key, name))
        return found[0]

    def test_they_agree_with_the_packages(self):
        for short in ("coordinator", "agent"):
            name = "medley-" + short
            package = self.packages[name]
            program, option, configuration = self.value(name, "ExecStart").split()
            self.assertIn(program.lstrip("/"), package.content)
            self.assertEqual(option, "--config")
            self.assertEqual(package.control["conffiles"][1].decode().split(), [configuration])
            self.assertEqual(self.value(name, "User"), self.value(name, "Group"))
            postinst = package.control["postinst"][1].decode()
            self.assertIn("user=%s\n" % self.value(name, "User"), postinst)
            self.assertIn("state=/var/lib/%s\n" % self.value(name, "StateDirectory"), postinst)
            self.assertIn("-m %d " % int(self.value(name, "StateDirectoryMode")), postinst)
            if short == "coordinator":
                self.assertIn("\nstate_directory: /var/lib/%s\n" % self.value(name, "StateDirectory"),
                              package.text(configuration.lstrip("/")))
            self.assertEqual(self.value(name, "Restart"), "on-failure")
            for key in ("RestartSec", "TimeoutStopSec", "LimitNOFILE"):
                self.value(name, key)
        self.assertEqual(self.value("medley-agent", "LimitMEMLOCK"), "infinity")
        # It reads a store of any size first.
        self.assertEqual(self.value("medley-coordinator", "TimeoutStartSec"), "infinity")


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class AnalysisTest(packages.PackagesTest):
    def file(self, name, without=()):
        """A copy that names the programs where the packages were taken apart."""
        text = self.packages[name].text("lib/systemd/system/%s.service" % name)
        text = text.replace("/usr/lib/medley/", self.path("usr/lib/medley/"))
        for key in without:
            text = re.sub(r"(?m)^%s=.*\n" % key, "", text)
        folder = os.path.join(self.directory, "units%d" % len(without))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name + ".service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def verify(self, path):
        """What systemd says of the file itself; it also reads what else this machine has."""
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
        return [line for line in (done.stdout + done.stderr).splitlines() if os.path.basename(path) in line]

    def exposure(self, path):
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path], capture_output=True, text=True)
        found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        return float(found[1])

    def test_systemd_reads_them_without_a_word(self):
        for name in MOST_EXPOSED:
            path = self.file(name)
            self.assertEqual(self.verify(path), [])
            with open(path, "a", encoding="utf-8") as file:
                file.write("[Service]\nRestartPause=5\n")
            self.assertTrue(self.verify(path), "a key that systemd does not know was not found")

    def test_they_are_exposed_as_little_as_they_can_be(self):
        for name, most in MOST_EXPOSED.items():
            level = self.exposure(self.file(name))
            print("%s: exposure %.1f of at most %.1f" % (name, level, most), flush=True)
            self.assertLessEqual(level, most)
            keys = ("ProtectSystem", "SystemCallFilter", "CapabilityBoundingSet", "NoNewPrivileges")
            self.assertGreater(self.exposure(self.file(name, without=keys)), level)


if __name__ == "__main__":
    run_cases.main()
