"""The coordinator goes and comes back, and training does not notice: no attempt, no restart and no step is lost.

Jobs that it must not notice have far more steps than there is time for, so that none ends meanwhile on a machine of whatever
speed; they are cancelled at the end. MEDLEY_LEASES_AWAY: how many leases the coordinator stays away; four in the suite.
"""
import glob
import os
import signal
import time

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit, wait_for

LEASE_SECONDS = 5  # more than a busy machine keeps an agent from running
RESTARTS = 10
LEASES_AWAY = int(os.environ.get("MEDLEY_LEASES_AWAY", "4"))
MORE_STEPS = 3  # that the job makes before the coordinator goes once more
STEPS = 1_000_000


class CoordinatorAwayTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_cluster(lease_seconds=LEASE_SECONDS).start({"a": [fast], "b": [slow]})
        # The prefix of every curve: the learning rate stays the same, however many steps there are.
        cls.prefix = cls.run_to_the_end("undisturbed", 40)

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
        job_id = cls.running.submit(cls.long_spec(name, steps))
        cls.running.wait_for_state(job_id, "done")
        return cls.running.curve(job_id)

    def cancel(self, job_id):
        """Ends a job that would train for ever behind its next checkpoint; how many steps it has done."""
        self.running.wait_for_step(job_id, len(self.prefix))
        self.running.cli("cancel", job_id, "--checkpoint")
        job = self.running.wait_for_state(job_id, "cancelled")
        self.assertEqual(int(job["checkpoint_step"]), int(job["last_step"]["step"]))
        return int(job["last_step"]["step"])

    def assert_unharmed(self, job_id, state, steps):
        job = self.running.wait_for_state(job_id, state)
        self.assertEqual((job["attempt"], job["restarts"]), (1, 0), self.running.cli("logs", job_id).out)
        curve = self.running.curve(job_id)
        self.assertEqual(len(curve), steps)
        self.assert_same_curves(self.prefix, curve[:len(self.prefix)], norm_tolerance=1e-2)

    def test_ten_restarts_in_a_row(self):
        # Half of them kill the coordinator, the others ask it to end.
        job_id = self.running.submit(self.long_spec("restarts", STEPS))
        before = self.running.wait_for_step(job_id, MORE_STEPS)["last_step"]["step"]
        for number in range(RESTARTS):
            self.running.coordinator.kill([signal.SIGTERM, signal.SIGKILL][number % 2])
            self.running.start_coordinator()
            job = self.running.wait_for_step(job_id, before + MORE_STEPS)
            before = job["last_step"]["step"]
            self.assertEqual((job["state"], job["attempt"], job["restarts"]), ("running", 1, 0))
        self.assert_unharmed(job_id, "cancelled", self.cancel(job_id))

    def test_away_for_many_leases(self):
        job_id = self.running.submit(self.long_spec("away", STEPS))
        self.running.wait_for_step(job_id, MORE_STEPS)
        workers = {name: self.running.workers(name) for name in ("a", "b")}
        self.running.coordinator.kill()
        folder = os.path.join(self.running.path("checkpoints"), job_id)
        gone = time.monotonic()
        before = self.newest_checkpoint(folder)
        wait_for("the coordinator is away for long enough",
                 lambda: time.monotonic() - gone > LEASES_AWAY * LEASE_SECONDS, 2 * LEASES_AWAY * LEASE_SECONDS)
        wait_for("training goes on", lambda: self.newest_checkpoint(folder) > before)
        self.assertEqual({name: self.running.workers(name) for name in workers}, workers)
        self.running.start_coordinator()
        self.running.wait_for_nodes("a", "b")
        self.running.wait_for_step(job_id, before + MORE_STEPS)
        self.assert_unharmed(job_id, "cancelled", self.cancel(job_id))

    def test_a_job_that_ends_while_the_coordinator_is_away_is_done_when_it_is_back(self):
        job_id = self.running.submit(self.long_spec("ends", 60))
        self.running.wait_for_step(job_id, MORE_STEPS)
        self.running.coordinator.kill()
        folder = os.path.join(self.running.path("checkpoints"), job_id)
        wait_for("the last checkpoint", lambda: self.newest_checkpoint(folder) == 60)
        self.running.start_coordinator()
        self.assert_unharmed(job_id, "done", 60)

    @staticmethod
    def newest_checkpoint(folder):
        complete = glob.glob(os.path.join(folder, "step-*", "manifest.json"))
        return max((int(path.split(os.sep)[-2].split("-")[1]) for path in complete), default=0)


if __name__ == "__main__":
    cluster.main()
