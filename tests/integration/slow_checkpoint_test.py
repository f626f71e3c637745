"""Disks that are slow: a checkpoint that takes long to write or to read is waited for, for as long as something moves.

MEDLEY_CHECKPOINT_BYTES_PER_SECOND holds workers to a rate. In the suite a checkpoint takes some seconds. With
MEDLEY_LONG_CHECKPOINT it has 200 MB, and the rate is that many bytes a second: at 1000000 longer than two and three minutes.
"""
import os
import signal

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit, wait_for

RATE = "MEDLEY_CHECKPOINT_BYTES_PER_SECOND"
LONG = int(os.environ.get("MEDLEY_LONG_CHECKPOINT", "0"))
# Layers, hidden, bytes a second. Parameters, gradients' moments: 12 bytes a parameter.
LAYERS, HIDDEN, BYTES_PER_SECOND = (5, 512, LONG) if LONG else (3, 64, 200_000)
STATE_BYTES = 12 * (12 * LAYERS * HIDDEN * HIDDEN + 256 * HIDDEN)
STEPS = 6
SECONDS = STATE_BYTES / BYTES_PER_SECOND  # of one writer


class SlowCheckpointTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(os.environ.pop, RATE, None)
        cls.devices = dict(zip("ab", ([device] for device in fast_and_slow())))
        os.environ.pop(RATE, None)
        cls.running = cls.new_cluster().start(cls.devices)
        job = cls.running.submit(cls.slow_spec("quick", "pipeline"))
        cls.running.wait_for_job(job, "its end", lambda j: j["state"] == "done", 120 + SECONDS)
        cls.expected = cls.running.curve(job)
        cls.running.kill_all()
        # Agents hand it to their workers.
        os.environ[RATE] = str(BYTES_PER_SECOND)
        cls.running = cls.new_cluster().start(cls.devices)
        print("%.0f kB at %.0f kB/s: %.1f s" % (STATE_BYTES / 1e3, BYTES_PER_SECOND / 1e3, SECONDS), flush=True)

    @classmethod
    def slow_spec(cls, name, kind):
        plans = {
            "pipeline": {"micro_batch_sequences": 2, "units": [unit("a/cpu0", 0, 2), unit("b/cpu0", 2, LAYERS + 2)],
                         "routes": [route([0, 1], 4)]},
            # Every unit holds everything: all write a share, and read all.
            "replicas": {"micro_batch_sequences": 2, "units": [unit("a/cpu0", 0, LAYERS + 2), unit("b/cpu0", 0, LAYERS + 2)],
                         "routes": [route([0], 2), route([1], 2)]},
        }
        return cls.spec(name, steps=STEPS, plan=plans[kind],
                        model={"gpt2": {"layers": LAYERS, "hidden": HIDDEN, "heads": 4, "vocabulary": 256}},
                        checkpoint={"directory": cls.running.path("checkpoints"), "every_steps": STEPS // 2})

    def run_slowly(self, kind):
        job_id = self.running.submit(self.slow_spec(kind, kind))
        # Reading: after the first checkpoint a worker dies, and all load what there is.
        self.running.wait_for_job(job_id, "a checkpoint", lambda j: int(j["checkpoint_step"]) >= STEPS // 2, 120 + 4 * SECONDS)
        os.kill(wait_for("a worker", lambda: self.running.workers("b"))[0], signal.SIGKILL)
        again = self.running.wait_for_job(job_id, "a restart", lambda j: j["restarts"] == 1)
        self.assertNotIn(again["state"], ("failed", "done"))
        job = self.running.wait_for_job(job_id, "its end", lambda j: j["state"] in ("done", "failed"), 240 + 12 * SECONDS)
        self.assertEqual(job["state"], "done", job["state_reason"])
        logs = self.running.cli("logs", job_id).out
        self.assertEqual((job["restarts"], job["attempt"]), (1, 2), logs)
        self.assertIn("going on from ", logs)
        self.assert_same_curves(self.expected, self.running.curve(job_id), norm_tolerance=1e-2)
        taken = job["ended_at_seconds"] - job["started_at_seconds"]
        print("%s: %.1f s, two checkpoints written and one read" % (kind, taken), flush=True)
        self.assertGreater(taken, SECONDS)  # else nothing was slow

    def test_a_pipeline_writes_and_reads_slowly(self):
        self.run_slowly("pipeline")

    def test_replicas_write_and_read_slowly(self):
        self.run_slowly("replicas")


if __name__ == "__main__":
    cluster.main()
