#!/usr/bin/env python3
"""medley.sbatch: what is wrong with its command line is said, and under a Slurm of its own it does what it should (try-slurm.sh)."""
import os
import shutil
import subprocess
import tempfile
import unittest

import run_cases

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("medley", "medley-coordinator", "medley-agent", "medley-worker")
# A job's end is waited for as long as its output grows; what hangs altogether is ended by this.
PATIENCE_SECONDS = 1500
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Not below the test's own folder, whose name may be too long for a socket's.
        cls.directory = tempfile.mkdtemp(prefix="slurm-test.", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        for name in PROGRAMS:
            shutil.copy(os.path.join(os.environ["MEDLEY_BINARIES"], name), cls.directory)

    def sbatch(self, *arguments, **environment):
        return subprocess.run(["bash", os.path.join(HERE, "medley.sbatch"), *arguments], capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", **environment})

    def test_what_is_wrong_with_the_command_line_is_said(self):
        for arguments, words in [((), "JOB.yaml is missing"), (("--directory",), "--directory needs a value"),
                                 (("--nodes", "2", "job.yaml"), "--nodes: there is no such option"),
                                 (("--patience", "long", "job.yaml"), '--patience: "long" is not a whole number')]:
            done = self.sbatch(*arguments, SLURM_JOB_ID="1")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
            self.assertIn(words, done.stderr)
        self.assertIn("this belongs into a job of Slurm", self.sbatch("job.yaml").stderr)

    def test_help_names_options_and_exit_codes(self):
        done = self.sbatch("--help")
        self.assertEqual(done.returncode, 0)
        for words in ("--directory", "--programs", "--agent", "--patience", "--requeue", "exit codes"):
            self.assertIn(words, done.stdout)

    @unittest.skipUnless(all(shutil.which(one, path=PATH) for one in ("munged", "slurmctld", "slurmd", "sbatch")),
                         "there is no Slurm: apt-get install slurm-wlm munge")
    def test_under_a_slurm_of_its_own(self):
        done = subprocess.run([os.path.join(HERE, "try-slurm.sh"), "--programs", self.directory], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("all four did what they should", done.stdout)


if __name__ == "__main__":
    run_cases.main()
