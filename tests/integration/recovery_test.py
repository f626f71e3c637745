"""What dies comes back: the job goes on from its last checkpoint, and its loss curve is that of an undisturbed run."""
import glob
import os
import signal
import time

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit, wait_for

STEPS = 60
LEASE_SECONDS = 3  # less than workers wait for a silent peer, so that a silent node is lost as such


class RecoveryTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.random = cluster.random_seed()
        fast, slow = fast_and_slow()
        cls.devices = {"a": [fast], "b": [slow]}
        cls.running = cls.new_cluster(lease_seconds=LEASE_SECONDS).start(cls.devices)
        cls.sequences = 128
        cls.sequences = cls.sequences_of_long_steps(cls.running, cls.long_spec("calibration", 12))
        job = cls.running.submit(cls.long_spec("undisturbed"))
        cls.running.wait_for_state(job, "done")
        cls.expected = cls.running.curve(job)

    def setUp(self):
        """All agents are there and have nothing to do."""
        if self.running.coordinator.child.poll() is not None:
            self.running.start_coordinator()
        for name, process in self.running.agents.items():
            if process.child.poll() is not None:
                self.restart_agent(name)
        self.running.wait_for_nodes(*self.devices)

    @classmethod
    def long_spec(cls, name, steps=STEPS, **more):
        """Checkpoints come so often that workers write several before they notice that the coordinator is gone: one that it
        knows must stay."""
        return cls.spec(name, steps=steps, **{
            "batch": {"sequences": cls.sequences, "sequence_length": 32},
            "checkpoint": {"directory": cls.running.path("checkpoints"), "every_steps": 10, "keep": 6},
            "constraints": {"micro_batch_sizes": [8]},
            **more})

    @classmethod
    def pipeline(cls):
        return {"micro_batch_sequences": 8, "units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)],
                "routes": [route([0, 1], cls.sequences // 8)]}

    def restart_agent(self, name):
        self.running.start_agent(name, self.devices[name])

    def submit_and_reach_a_random_step(self, name, **more):
        job = self.running.submit(self.long_spec(name, **more))
        step = self.random.randint(12, STEPS // 2)
        self.running.wait_for_step(job, step)
        if "checkpoint" not in more:
            self.running.wait_for_job(job, "a checkpoint to go on from", lambda j: int(j["checkpoint_step"]) > 0)
        used = {device for u in self.running.job(job)["plan"]["plan"]["units"] for device in u["devices"]}
        print("%s: step %d on %s" % (job, step, sorted(used)), flush=True)
        return job, sorted(device.split("/")[0] for device in used)

    def kill_worker(self, node):
        """The only one, once the one of an attempt before has ended."""
        def only_worker():
            workers = self.running.workers(node)
            return workers if len(workers) == 1 else None
        os.kill(wait_for("one worker of " + node, only_worker)[0], signal.SIGKILL)

    def assert_survived(self, job, restarts):
        done = self.running.wait_for_state(job, "done")
        self.assertEqual(done["restarts"], restarts)
        better = self.running.better_plans(job)
        self.assertEqual(done["attempt"], 1 + restarts + better)
        self.assert_same_curves(self.expected, self.running.curve(job), norm_tolerance=1e-2)
        logs = self.running.cli("logs", job).out
        self.assertEqual("going on from " in logs, restarts + better > 0)
        return done

    def test_a_killed_worker(self):
        job, nodes = self.submit_and_reach_a_random_step("worker")
        victim = self.random.choice(nodes)
        self.kill_worker(victim)
        recovering = self.running.wait_for_job(job, "a restart", lambda j: j["restarts"] == 1)
        self.assert_survived(job, restarts=1)
        self.assertRegex(self.running.cli("logs", job).out, r"recovering: %s/cpu0: .*signal 9" % victim)
        self.assertNotEqual(recovering["state"], "failed")

    def test_a_killed_worker_of_a_unit_of_two_devices(self):
        # Large micro-batches: the two wait for each other in every layer of each, which on a busy machine takes long.
        plan = {"micro_batch_sequences": 32, "routes": [route([0], self.sequences // 32)],
                "units": [{"devices": ["a/cpu0", "b/cpu0"], "blocks": [{"first": 0, "end": 5}]}]}
        job, nodes = self.submit_and_reach_a_random_step("shared", plan=plan)
        self.kill_worker(self.random.choice(nodes))
        self.assert_survived(job, restarts=1)

    def test_a_killed_agent_takes_its_workers_with_it_and_the_rest_goes_on(self):
        job, nodes = self.submit_and_reach_a_random_step("agent")
        victim = self.random.choice(nodes)
        workers = self.running.workers(victim)
        killed = time.monotonic()
        self.running.agents[victim].kill()

        def planned_anew(j):
            devices = [device for u in (j.get("plan") or {}).get("plan", {}).get("units", []) for device in u["devices"]]
            return j["attempt"] >= 2 and j["state"] in ("running", "done") and \
                victim + "/cpu0" not in devices and devices

        self.running.wait_for_job(job, "a plan without " + victim, planned_anew)
        print("runs without %s %.1f s after it was killed" % (victim, time.monotonic() - killed), flush=True)
        wait_for("the workers of %s end" % victim, lambda: not any(os.path.exists("/proc/%d" % pid) for pid in workers))
        self.assert_survived(job, restarts=1)
        wait_for("the lease of %s ends" % victim, lambda: not self.alive(victim))

    def alive(self, name):
        return any(node["name"] == name and node["alive"] for node in self.running.nodes())

    def test_a_killed_coordinator(self):
        job, _ = self.submit_and_reach_a_random_step("coordinator")
        self.running.coordinator.kill()
        self.running.start_coordinator()
        self.assert_survived(job, restarts=0)
        self.assertIn("the coordinator was restarted; the job is taken up where it is", self.running.cli("logs", job).out)

    def test_a_coordinator_that_dies_behind_its_workers_leaves_no_gap_in_the_curve(self):
        job, _ = self.submit_and_reach_a_random_step("behind")
        os.kill(self.running.coordinator.pid, signal.SIGSTOP)
        folder = os.path.join(self.running.path("checkpoints"), job)
        seen = self.complete_checkpoints(folder)
        wait_for("a checkpoint that the coordinator does not know", lambda: self.complete_checkpoints(folder) - seen)
        self.running.coordinator.kill()
        self.running.start_coordinator()
        self.assert_survived(job, restarts=0)

    @staticmethod
    def complete_checkpoints(folder):
        return {os.path.dirname(path) for path in glob.glob(os.path.join(folder, "step-*", "manifest.json"))}

    def test_a_job_goes_on_with_what_is_left_of_the_devices_that_it_may_use(self):
        job, nodes = self.submit_and_reach_a_random_step("may", constraints={"devices": ["a/cpu0", "b/cpu0"],
                                                                             "micro_batch_sizes": [8]})
        self.running.agents[nodes[-1]].kill()
        self.assert_survived(job, restarts=1)

    def test_everything_killed_at_once(self):
        job, _ = self.submit_and_reach_a_random_step("everything")
        self.running.kill_all()
        self.running.start_coordinator()
        for name in self.devices:
            self.restart_agent(name)
        self.running.wait_for_job(job, "a restart", lambda j: j["restarts"] == 1)
        self.assert_survived(job, restarts=1)

    def test_after_too_many_losses_a_job_has_failed_and_says_why(self):
        never = {"directory": self.running.path("checkpoints"), "every_steps": 1000}  # a checkpoint would begin the count anew
        job, nodes = self.submit_and_reach_a_random_step("unlucky", max_restarts=1, plan=self.pipeline(), checkpoint=never)
        for restarts in (1, 2):
            victim = self.random.choice(nodes)
            self.kill_worker(victim)
            if restarts == 1:
                self.running.wait_for_job(job, "the second attempt runs",
                                          lambda j: j["attempt"] == 2 and j["state"] == "running")
        failed = self.running.wait_for_state(job, "failed")
        self.assertEqual(failed["restarts"], 1)
        for wanted in (victim + "/cpu0: ", "killed by signal 9", "max_restarts is 1"):
            self.assertIn(wanted, failed["state_reason"])
        watched = self.running.cli("watch", job, check=False)
        self.assertEqual(watched.status, 1)
        self.assertIn(failed["state_reason"], watched.err)
        self.assertEqual([node["jobs"] for node in self.running.nodes()], [{}, {}])

    def test_a_silent_agent_is_lost_within_its_lease_and_welcome_again(self):
        job, nodes = self.submit_and_reach_a_random_step("silent", steps=STEPS)
        victim = self.random.choice(nodes)
        stopped = self.running.agents[victim]
        workers = self.running.workers(victim)
        os.killpg(stopped.pid, signal.SIGSTOP)
        self.running.wait_for_job(job, "a restart", lambda j: j["restarts"] == 1)
        wait_for("the lease of %s ends" % victim, lambda: not self.alive(victim))
        self.assert_survived(job, restarts=1)
        os.killpg(stopped.pid, signal.SIGCONT)
        wait_for("%s is back" % victim, lambda: self.alive(victim))
        wait_for("its old workers end", lambda: not set(workers) & set(self.running.workers(victim)))
        self.assertEqual(self.running.job(job)["state"], "done")

    def test_a_pinned_job_waits_for_its_device_and_says_so(self):
        job, _ = self.submit_and_reach_a_random_step("pinned", plan=self.pipeline())
        self.running.agents["b"].kill()
        waiting = self.running.wait_for_state(job, "recovering")
        self.assertEqual(waiting["restarts"], 1)
        wait_for("the lease of b ends", lambda: not self.alive("b"))
        waiting = self.running.job(job)
        self.assertEqual((waiting["state"], waiting["restarts"]), ("recovering", 1))
        print(waiting["state_reason"], flush=True)
        self.assertRegex(waiting["state_reason"], r"b/cpu0: its agent is gone.*; waits for b/cpu0 \(not there\)$")
        self.running.cli("cancel", job)
        self.running.wait_for_state(job, "cancelled")


if __name__ == "__main__":
    cluster.main()
