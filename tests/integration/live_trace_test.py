"""`medley trace JOB --steps N`: steps of a job that runs, which goes on as if nobody had looked."""
import json
import re

import cluster
from cluster import ClusterTest, core, cpu_device, cpu_variants, route, unit

RUNS_FOR_EVER = 1_000_000
DEVICES = ["a/cpu0", "b/cpu0"]
STEPS = 3


class LiveTraceTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        variant = cpu_variants()[0]
        cls.running = cls.new_cluster().start({"a": [cpu_device(variant, core(0))], "b": [cpu_device(variant, core(1))]})
        plan = {"units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)], "routes": [route([0, 1], 4, 2)]}

        def start(name):
            job = cls.running.submit(cls.spec(name, steps=RUNS_FOR_EVER, plan=plan))
            cls.running.wait_for_step(job, 1)
            return job

        # One job is traced and the other not; the ranks of the first are asked while they train.
        cls.job = start("traced")
        cls.waiting = cls.running.submit(cls.spec("waiting", plan=plan))
        cls.refused = {name: cls.running.cli("trace", *arguments, check=False) for name, arguments in {
            "none": (cls.job, "--steps", "0"), "too many": (cls.job, "--steps", "1001"), "no number": (cls.job, "--steps", "some"),
            "one and several": (cls.job, "--steps", "2", "--step", "1"), "unknown": ("nobody-1", "--steps", "2"),
            "waiting": (cls.waiting, "--steps", "2")}.items()}
        cls.file = cls.running.path("steps.json")
        cls.answer = cls.running.json("trace", cls.job, "--steps", str(STEPS), "-o", cls.file)
        with open(cls.file, encoding="utf-8") as text:
            cls.trace = json.load(text)
        cls.last = cls.answer["first_step"] + STEPS - 1
        cls.again = json.loads(cls.running.cli("trace", cls.job, "--steps", "1", "-o", "-").out)
        cls.running.wait_for_step(cls.job, cls.last + 1)
        cls.after = cls.running.job(cls.job)
        cls.running.cli("cancel", cls.job)
        cls.running.cli("cancel", cls.waiting)
        cls.running.wait_for_state(cls.job, "cancelled")
        cls.traced_curve = cls.running.curve(cls.job)[:cls.last + 1]
        other = start("untraced")
        cls.running.wait_for_step(other, cls.last + 1)
        cls.running.cli("cancel", other)
        cls.running.wait_for_state(other, "cancelled")
        cls.untraced_curve = cls.running.curve(other)[:cls.last + 1]

    def slices(self, category):
        return [event for event in self.trace["traceEvents"] if event["ph"] == "X" and event["cat"] == category]

    def test_the_file_has_exactly_the_steps_that_were_asked_for(self):
        self.assertEqual((self.answer["steps"], self.answer["lost_steps"], self.answer["file"]), (STEPS, 0, self.file))
        self.assertEqual(self.trace["otherData"], {"job": self.job, "first_step": self.answer["first_step"],
                                                   "last_step": self.last, "steps": STEPS, "lost_steps": 0})
        steps = self.slices("step")
        self.assertEqual([event["args"]["step"] for event in steps], list(range(self.answer["first_step"], self.last + 1)))
        starts = [event["ts"] for event in steps]
        self.assertEqual(starts[0], 0)
        self.assertEqual(starts, sorted(starts))

    def test_every_rank_has_every_step_predicted_beside_measured(self):
        processes = {event["pid"]: event["args"]["name"] for event in self.trace["traceEvents"] if event["name"] == "process_name"}
        self.assertEqual([processes[pid] for pid in sorted(processes)], ["steps", *DEVICES])
        for pid in sorted(processes)[1:]:
            for category in ("measured", "predicted"):
                for micro_batch in range(4):
                    found = [event for event in self.slices(category)
                             if event["pid"] == pid and event["name"] == "forward %d" % micro_batch]
                    self.assertEqual(len(found), STEPS, (processes[pid], category, micro_batch))
            # Nothing of a step before the first is in it, and nothing of one after the last.
            end = max(event["ts"] + event["dur"] for event in self.slices("step"))
            for event in self.slices("measured"):
                self.assertGreaterEqual(event["ts"], 0)
                self.assertLessEqual(event["ts"] + event["dur"], end + 1)

    def test_the_job_goes_on_as_it_was(self):
        self.assertEqual(self.after["attempt"], 1)
        self.assertGreater(self.after["last_step"]["step"], self.last)
        self.assert_same_curves(self.untraced_curve, self.traced_curve)

    def test_it_may_be_traced_again_later(self):
        self.assertEqual(self.again["otherData"]["steps"], 1)
        self.assertGreater(self.again["otherData"]["first_step"], self.last)

    def test_agents_log_which_steps_of_which_rank_are_traced(self):
        for rank, name in enumerate(("a", "b")):
            with open(self.running.path(name + ".log"), encoding="utf-8") as file:
                log = file.read()
            self.assertRegex(log, r"steps %d to %d are traced job=%s attempt=1 rank=%d node=%s request=[0-9a-f]{16}\n" % (
                self.answer["first_step"], self.last, re.escape(self.job), rank, name))

    def test_what_is_wrong_has_one_message(self):
        for name, status, words in (
                ("none", 2, ("--steps", "0", "1 to 1000")), ("too many", 2, ("--steps", "1001", "1 to 1000")),
                ("no number", 2, ("--steps", "some")), ("one and several", 2, ("--step", "--steps")),
                ("unknown", 1, ("nobody-1",)), ("waiting", 1, (self.waiting, "does not run"))):
            with self.subTest(name):
                refused = self.refused[name]
                self.assertEqual(refused.status, status, refused)
                self.assertEqual(len(refused.err.strip().splitlines()), 1, refused)
                for word in words:
                    self.assertIn(word, refused.err)
        ended = self.running.cli("trace", self.job, "--steps", "2", check=False)
        self.assertEqual(ended.status, 1, ended)
        self.assertIn("does not run", ended.err)


if __name__ == "__main__":
    cluster.main()
