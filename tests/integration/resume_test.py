"""Everything is killed at once, and goes on elsewhere: on devices that were not there before, or under another plan that the next
job pins. What is on the disk is all that is left, and the loss curve is that of an undisturbed run of one device."""
import glob
import os

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit

STEPS = 90  # more than workers do before one of a few kills is known to be due, however late that is noticed
EVERY = 4   # steps between two checkpoints
LEASE_SECONDS = 5  # so long a job waits for nodes that will not come back


def plans(fast, slow, sequences):
    """No two of them hold, cut, order or keep anything alike. `sequences` of a step: a multiple of 128."""
    parts = sequences // 128
    shares = [{"key_value_heads": heads, "feed_forward": 32 * heads, "vocabulary": 64 * heads} for heads in (3, 1)]
    return {
        "pipeline": {"units": [unit(fast, 0, 3), unit(slow, 3, 5)], "routes": [route([0, 1], 16 * parts, 8)]},
        "shared unevenly": {"schedule": "gpipe", "routes": [route([0], 32 * parts, 4)],
                            "units": [{"devices": [slow, fast], "blocks": [{"first": 0, "end": 5}], "shares": shares}]},
        "replicas that shard the optimizer": {
            "shards_optimizer": True, "routes": [route([0], 12 * parts, 8), route([1], 8 * parts, 4)],
            "units": [{**unit(fast, 0, 5), "optimizer_weight": 3}, unit(slow, 0, 5)]},
        "two ranges, recomputed": {
            "schedule": "interleaved-1f1b", "routes": [route([0, 1, 0], 32 * parts, 4)],
            "units": [{"devices": [slow], "blocks": [{"first": 0, "end": 1}, {"first": 3, "end": 5}]},
                      {**unit(fast, 1, 3), "recompute": "layers"}]},
    }


class ResumeTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.random = cluster.random_seed()
        cls.fast, cls.slow = fast_and_slow()
        alone = cls.new_cluster().start({"alone": [cls.fast]})

        def of_one_device(name, steps):
            plan = {"units": [unit("alone/cpu0", 0, 5)], "routes": [route([0], cls.sequences // 8, 8)]}
            return cls.spec(name, steps=steps, batch=cls.batch(), plan=plan)

        cls.sequences = 128
        cls.sequences = cls.sequences_of_long_steps(alone, of_one_device("calibration", 12))
        job = alone.submit(of_one_device("undisturbed", STEPS))
        alone.wait_for_state(job, "done")
        cls.expected = alone.curve(job)
        alone.kill_all()

    @classmethod
    def batch(cls):
        return {"sequences": cls.sequences, "sequence_length": 32}

    def start_agents(self, prefix):
        """Another two nodes, of one device each, as far as the coordinator can tell."""
        names = [prefix + "fast", prefix + "slow"]
        self.running.agents.clear()
        for name, device in zip(names, (self.fast, self.slow)):
            self.running.start_agent(name, [device])
        self.running.wait_for_nodes(*names)
        return [name + "/cpu0" for name in names]

    def submit(self, name, **more):
        """Workers write checkpoints until they are killed, too, after the coordinator was: one that it knows must stay."""
        checkpoint = {"directory": self.running.path("checkpoints"), "every_steps": EVERY, "keep": STEPS, **more.pop("checkpoint", {})}
        return self.running.submit(self.spec(name, steps=STEPS, batch=self.batch(), checkpoint=checkpoint, **more))

    def kill_everything(self, job, after):
        """At a random step, at least one after `after`; the job's newest complete checkpoint, which may be older than the kill."""
        step = self.random.randint(after + 1, min(after + 2 * EVERY + 2, STEPS - 2))
        known = int(self.running.wait_for_step(job, step)["checkpoint_step"])
        self.running.kill_all()
        complete = sorted(glob.glob(os.path.join(self.running.path("checkpoints"), job, "step-*", "manifest.json")))
        newest = os.path.dirname(complete[-1]) if complete else None
        saved = int(newest[-8:]) if newest else 0
        print("%s: killed after step %d; checkpoint %d is known, %d complete" % (job, step, known, saved), flush=True)
        self.assertGreaterEqual(saved, known)
        return saved, newest

    def check_curve(self, job, first, what):
        """Every step from `first` on that the coordinator knows, each once."""
        steps = self.running.steps(job)
        self.assertEqual([step["step"] for step in steps], list(range(first, first + len(steps))), what)
        self.assert_same_curves(self.expected[first - 1:first - 1 + len(steps)],
                                [(step["loss"], step["gradient_norm"]) for step in steps], norm_tolerance=1e-2, what=what)
        return len(steps)

    def test_everything_is_killed_and_the_job_goes_on_with_devices_that_were_not_there(self):
        self.running = self.new_cluster(lease_seconds=LEASE_SECONDS)
        self.running.start_coordinator()
        self.start_agents("old-")
        job = self.submit("moved", constraints={"micro_batch_sizes": [8]})
        self.kill_everything(job, EVERY)
        self.running.start_coordinator()
        devices = self.start_agents("new-")
        done = self.running.wait_for_state(job, "done")
        self.assertEqual(done["restarts"], 1)
        used = {device for of_unit in done["plan"]["plan"]["units"] for device in of_unit["devices"]}
        self.assertLessEqual(used, set(devices))
        self.assertEqual(self.check_curve(job, 1, "moved"), STEPS)
        self.assertIn("going on from ", self.running.cli("logs", job).out)

    def test_everything_is_killed_and_the_next_job_goes_on_under_another_pinned_plan(self):
        self.running = self.new_cluster(lease_seconds=LEASE_SECONDS)
        order = sorted(plans("fast", "slow", self.sequences))
        self.random.shuffle(order)
        job, first, checkpoint = None, 1, {}
        for number, name in enumerate(order):
            self.running.start_coordinator()
            devices = self.start_agents("%d-" % number)
            if job is not None:
                # It waits for devices that will not come back; what it told before it was killed is as it should be.
                self.running.cli("cancel", job)
                self.running.wait_for_state(job, "cancelled")
                self.check_curve(job, first, order[number - 1])
                first = saved + 1
            job = self.submit("plan-%d" % number, plan=plans(*devices, self.sequences)[name], checkpoint=checkpoint)
            if number + 1 < len(order):
                saved, newest = self.kill_everything(job, first - 1)
                # Before its first checkpoint the job has nothing of its own: the next one begins where it did.
                if newest is None:
                    saved = first - 1
                else:
                    checkpoint = {"resume_from": newest}
        self.running.wait_for_state(job, "done")
        self.assertEqual(self.check_curve(job, first, order[-1]), STEPS - first + 1)


if __name__ == "__main__":
    cluster.main()
