"""medley align with real workers: two devices of this machine, op by op."""
import os
import signal
import subprocess
import tempfile

import cluster
from cluster import ClusterTest, cpu_variants, program, run_command, wait_for, write_spec


class AlignTest(ClusterTest):
    def align(self, *arguments):
        return run_command([program("medley"), "align", *arguments], timeout=240)

    def job(self, name="align", **more):
        return write_spec(os.path.join(self.directory, name + ".yaml"), self.spec(name, **more))

    def assert_refused(self, result, *wanted):
        """Exit code 2, nothing on standard output, the reason on the last line of standard error."""
        self.assertEqual((result.status, result.out), (2, ""), result)
        for text in wanted:
            self.assertIn(text, result.err.splitlines()[-1])

    def test_the_fastest_device_is_aligned_with_the_reference(self):
        variant = "cpu:%s/1" % cpu_variants()[0]
        result = self.align("--model", self.job(), "--devices", variant + ",reference", "--output", "json")
        self.assertEqual(result.status, 0, result)
        found = result.json()
        self.assertTrue(found["aligned"], found["verdict"])
        self.assertEqual(found["a"]["device"], variant)
        self.assertEqual(found["calls_parted"], 0)
        self.assertEqual(found["calls"], found["capture"]["captured"])
        capture = found["capture"]
        self.assertEqual(capture["calls"], capture["captured"] + sum(capture["left_out"].values()))
        self.assertEqual(len(found["a"]["losses"]), 3)
        self.assertLess(found["a"]["losses"][2], found["a"]["losses"][0])
        # Every op that a GPT-2 needs was compared, forward and backward.
        ops = {op["op"] for op in found["ops"]}
        self.assertLessEqual({"Matmul", "LayerNormForward", "LayerNormBackward", "AttentionForward", "AttentionBackward",
                              "EmbeddingForward", "EmbeddingBackward", "HeadLoss", "AdamW"}, ops)

    def test_two_variants_are_aligned_in_text_and_their_files_are_kept(self):
        first, last = "cpu:%s/1" % cpu_variants()[0], "cpu:%s/1" % cpu_variants()[-1]
        keep = os.path.join(self.directory, "kept")
        options = ("--model", self.job(), "--devices", first + "," + last, "--keep", keep)
        result = self.align(*options, "--steps", "1", "--sequence", "16", "--micro-batch", "2")
        self.assertEqual(result.status, 0, result)
        self.assertIn("are aligned: ", result.out.splitlines()[0])
        self.assertIn("Captured ", result.out.splitlines()[-1])
        calls = os.listdir(os.path.join(keep, "calls"))
        self.assertGreater(len(calls), 20)
        for party in ("a", "b", "oracle"):
            self.assertEqual(len(os.listdir(os.path.join(keep, party))), len(calls))
        self.assert_refused(self.align(*options), "--keep", keep)

    def test_a_device_that_is_not_there_is_refused_before_anything_runs(self):
        job = self.job()
        for devices, *wanted in (("cpu:avx2,quantum", "quantum", "cpu"), ("cpu:avx3,reference", "avx3", "avx512"),
                                 ("reference/99999,cpu", "reference/99999"), ("reference", "two"), ("a,b,c", "two")):
            with self.subTest(devices=devices):
                result = self.align("--model", job, "--devices", devices)
                self.assert_refused(result, "--devices", *wanted)
                self.assertEqual(len(result.err.splitlines()), 1, result.err)

    def test_a_model_or_an_option_that_is_wrong_is_refused_with_its_name(self):
        job = self.job()
        devices = ("--devices", "reference,reference")
        self.assert_refused(self.align("--model", "/nowhere/job.yaml", *devices), "--model", "/nowhere/job.yaml")
        self.assert_refused(self.align("--model", self.directory, *devices), "--model", "config.json")
        self.assert_refused(self.align("--model", job, *devices, "--sequence", "33"), "--sequence", "33", "32")
        self.assert_refused(self.align("--model", job, *devices, "--data", "/nowhere.txt"), "/nowhere.txt")
        self.assertEqual(self.align("--model", job, *devices, "--precision", "f64").status, 2)

    def test_an_interrupt_ends_the_workers_and_removes_the_files(self):
        temporary = tempfile.mkdtemp(dir=self.directory)
        command = [program("medley"), "align", "--model", self.job("long", steps=1000), "--devices",
                   "reference,reference", "--steps", "1000"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              start_new_session=True, env={**os.environ, "TMPDIR": temporary}) as running:
            wait_for("something is captured", lambda: any("calls" in path and files
                                                         for path, _, files in os.walk(temporary)))
            running.send_signal(signal.SIGINT)
            error = running.communicate(timeout=60)[1].decode()
        self.assertEqual(running.returncode, 130, error)
        self.assertIn("interrupted", error)
        self.assertEqual(os.listdir(temporary), [])


if __name__ == "__main__":
    cluster.main()
