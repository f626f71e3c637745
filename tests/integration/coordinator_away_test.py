"""The coordinator goes and comes back, and training does not notice: no attempt, no restart and no step is lost.

MEDLEY_LEASES_AWAY, of a second each: how long it stays away; ten in the suite.
"""
import glob
import os
import signal
import time

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit, wait_for

LEASE_SECONDS = 1
RESTARTS = 10
LEASES_AWAY = int(os.environ.get("MEDLEY_LEASES_AWAY", "10"))
MORE_STEPS = 3  # that the job makes before the coordinator goes once more


class CoordinatorAwayTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_cluster(lease_seconds=LEASE_SECONDS).start({"a": [fast], "b": [slow]})
        # The prefix of every curve: the learning rate stays the same, however many steps there are.
        cls.prefix = cls.run_to_the_end("undisturbed", 40)
        first = cls.running.steps(cls.last)
        cls.step_seconds = sum(step["step_seconds"] for step in first[10:]) / len(first[10:])
        print("%.1f ms a step" % (1e3 * cls.step_seconds), flush=True)

    @classmethod
    def long_spec(cls, name, steps):
        return cls.spec(name, steps=steps, **{
            "batch": {"sequences": 128, "sequence_length": 32},
            "checkpoint": {"directory": cls.running.path("checkpoints"), "every_steps": 5, "keep": 2},
            "optimizer": {"learning_rate": 1e-3, "minimum_learning_rate": 1e-3, "warmup_steps": 5},
            "plan": {"micro_batch_sequences": 8, "units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)],
                     "routes": [route([0, 1], 16)]}})

    @classmethod
    def run_to_the_end(cls, name, steps):
        cls.last = cls.running.submit(cls.long_spec(name, steps))
        cls.running.wait_for_job(cls.last, "its end", lambda job: job["state"] == "done", 300)
        return cls.running.curve(cls.last)

    def steps_of(self, seconds):
        """How many take at least so long on this machine, whatever it can do."""
        return int(seconds / self.step_seconds) + 100

    def assert_unharmed(self, job_id, steps):
        job = self.running.wait_for_job(job_id, "its end", lambda j: j["state"] in ("done", "failed", "cancelled"),
                                        120 + 20 * steps * self.step_seconds)
        self.assertEqual(job["state"], "done", job["state_reason"])
        self.assertEqual((job["attempt"], job["restarts"]), (1, 0), self.running.cli("logs", job_id).out)
        curve = self.running.curve(job_id)
        self.assertEqual(len(curve), steps)
        self.assert_same_curves(self.prefix, curve[:len(self.prefix)], norm_tolerance=1e-2)

    def test_ten_restarts_in_a_row(self):
        # Half of them kill the coordinator, the others ask it to end.
        steps = self.steps_of(2.0 * RESTARTS)
        job_id = self.running.submit(self.long_spec("restarts", steps))
        before = self.running.wait_for_step(job_id, MORE_STEPS)["last_step"]["step"]
        for number in range(RESTARTS):
            self.running.coordinator.kill([signal.SIGTERM, signal.SIGKILL][number % 2])
            self.running.start_coordinator()
            job = self.running.wait_for_step(job_id, before + MORE_STEPS)
            before = job["last_step"]["step"]
            self.assertEqual((job["state"], job["attempt"], job["restarts"]), ("running", 1, 0))
        self.assert_unharmed(job_id, steps)

    def test_away_for_many_leases(self):
        steps = self.steps_of(1.5 * LEASES_AWAY * LEASE_SECONDS)
        job_id = self.running.submit(self.long_spec("away", steps))
        self.running.wait_for_step(job_id, MORE_STEPS)
        workers = {name: self.running.workers(name) for name in ("a", "b")}
        self.running.coordinator.kill()
        folder = os.path.join(self.running.path("checkpoints"), job_id)
        gone = time.monotonic()
        before = self.newest_checkpoint(folder)
        wait_for("the coordinator is away for long enough",
                 lambda: time.monotonic() - gone > LEASES_AWAY * LEASE_SECONDS, 2 * LEASES_AWAY * LEASE_SECONDS)
        self.assertGreater(self.newest_checkpoint(folder), before)  # training went on
        self.assertEqual({name: self.running.workers(name) for name in workers}, workers)
        self.running.start_coordinator()
        self.running.wait_for_nodes("a", "b")
        self.assert_unharmed(job_id, steps)

    def test_a_job_that_ends_while_the_coordinator_is_away_is_done_when_it_is_back(self):
        job_id = self.running.submit(self.long_spec("ends", 60))
        self.running.wait_for_step(job_id, MORE_STEPS)
        self.running.coordinator.kill()
        folder = os.path.join(self.running.path("checkpoints"), job_id)
        wait_for("the last checkpoint", lambda: self.newest_checkpoint(folder) == 60, 300)
        self.running.start_coordinator()
        self.assert_unharmed(job_id, 60)

    @staticmethod
    def newest_checkpoint(folder):
        complete = glob.glob(os.path.join(folder, "step-*", "manifest.json"))
        return max((int(path.split(os.sep)[-2].split("-")[1]) for path in complete), default=0)


if __name__ == "__main__":
    cluster.main()
