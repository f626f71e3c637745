"""What a user does with a cluster that works, command by command."""
import json
import os
import re
import struct

import cluster
from cluster import ClusterTest, fast_and_slow, route, unit, write_spec


def read_safetensors_header(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(size))


class MainJobTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_cluster().start({"a": [fast], "b": [slow]})
        spec = cls.spec("main", steps=60, validation={"every_steps": 20},
                        checkpoint={"directory": cls.running.path("checkpoints"), "every_steps": 20, "keep": 2})
        spec["data"]["validation"] = cls.data
        cls.main_spec = write_spec(cls.running.path("main.job.yaml"), spec)
        cls.watched = cls.running.cli("submit", cls.main_spec, "--watch", "--request-id", "the-main-job", check=False)
        cls.job = cls.watched.out.split("\n")[0]

    def pinned(self, name, steps=12, **more):
        plan = {"micro_batch_sequences": 2, "schedule": "gpipe",
                "units": [unit("a/cpu0", 0, 2), unit("b/cpu0", 2, 5)],
                "routes": [route([0, 1], 4)]}
        return self.spec(name, steps=steps, plan=plan, **more)

    def test_a_watched_job_prints_plain_lines_and_ends_with_0(self):
        self.assertEqual(self.watched.status, 0, self.watched)
        self.assertNotIn("\x1b", self.watched.out)
        self.assertNotIn("\r", self.watched.out)
        self.assertEqual(self.watched.err, "")
        lines = self.watched.out.splitlines()
        self.assertEqual(lines[-1], self.job + " done")
        self.assertTrue(any(re.match(r"step \d+/60  loss \d+\.\d{4}  .* tokens/s", line) for line in lines), self.watched)
        self.assertTrue(any(re.match(r"step 60/60  ", line) for line in lines), self.watched)
        self.assertTrue(any(line.startswith("validation after step 60") for line in lines), self.watched)

    def test_the_loss_falls(self):
        losses = [loss for loss, _ in self.running.curve(self.job)]
        self.assertEqual(len(losses), 60)
        self.assertAlmostEqual(losses[0], 5.55, delta=0.2)  # ln 256: it knows nothing
        self.assertLess(losses[-1], losses[0] - 1)
        validations = self.running.json("steps", self.job)["validations"]
        self.assertEqual([v["step"] for v in validations], [20, 40, 60])
        self.assertLess(validations[-1]["loss"], validations[0]["loss"])

    def test_status_tells_of_all_jobs_and_of_one(self):
        self.assertIn(self.job, [job["id"] for job in self.running.json("status")["jobs"]])
        self.assertRegex(self.running.cli("status").out, r"(?m)^%s +done +60/60 " % re.escape(self.job))
        job = self.running.job(self.job)
        better = self.running.better_plans(self.job)
        self.assertEqual((job["state"], job["restarts"], job["attempt"]), ("done", 0, 1 + better))
        self.assertEqual(job["last_step"]["step"], 60)
        self.assertEqual(job["checkpoint_step"], 60)
        self.assertTrue(os.path.isdir(job["checkpoint_path"]))
        self.assertGreater(job["measured_step_seconds"], 0)
        self.assertLessEqual(job["submitted_at_seconds"], job["started_at_seconds"])
        self.assertLessEqual(job["started_at_seconds"], job["ended_at_seconds"])
        text = self.running.cli("status", self.job).out
        self.assertRegex(text, r"(?m)^state +done$")
        self.assertRegex(text, r"(?m)^plan +\S")

    def test_only_as_many_checkpoints_stay_as_asked(self):
        folder = os.path.dirname(self.running.job(self.job)["checkpoint_path"])
        self.assertEqual(sorted(os.listdir(folder)), ["run.json", "step-00000040", "step-00000060"])

    def test_steps_nodes_and_logs_are_readable(self):
        steps = self.running.cli("steps", self.job).out.splitlines()
        self.assertRegex(steps[0], r"STEP +LOSS +GRADIENT NORM")
        self.assertEqual(len(steps), 61)
        nodes = self.running.cli("nodes").out
        for device in ("a/cpu0", "b/cpu0"):
            self.assertRegex(nodes, r"(?m)^%s +cpu +\S+ .*alive" % device)
        logs = [line["text"].split(":")[0] for line in self.running.json("logs", self.job)["lines"]]
        states = [text for text in logs if text in ("profiling", "planning", "launching", "running", "done")]
        once_more = ["profiling", "planning", "launching", "running"] * self.running.better_plans(self.job)
        self.assertEqual(states, ["profiling", "planning", "launching", "running", *once_more, "done"])

    def test_a_jobs_plan_is_compared_with_others_when_asked_for(self):
        self.assertFalse(self.running.job(self.job)["plan"].get("rejected"))
        text = self.running.cli("explain", self.job).out
        report = self.running.json("explain", self.job)
        kinds = [plan["kind"] for plan in report["rejected"]]
        self.assertGreaterEqual(len(kinds), 2)
        for wanted in ["predicted step", "INSTEAD", *kinds]:
            self.assertIn(wanted, text)
        self.assertEqual(self.running.job(self.job)["plan"]["rejected"], report["rejected"])  # not looked for twice
        self.assertEqual(report["plan"], self.running.job(self.job)["plan"]["plan"])
        self.assertIn("nobody-1", str(self.running.cli("explain", "nobody-1", check=False)))

    def test_plan_explains_and_starts_nothing(self):
        before = len(self.running.json("status")["jobs"])
        text = self.running.cli("plan", self.main_spec, "--explain").out
        report = self.running.json("plan", self.main_spec)
        # Which plan is the best, and so not among those that were rejected, is for this machine to say.
        units, routes = report["plan"]["units"], report["plan"]["routes"]
        stages = [len(route["units"]) for route in routes]
        may_be_chosen = {"single device": len(units) == 1, "equal split": len(units) == 2,
                         "pure data parallel": len(routes) > 1 and max(stages) == 1,
                         "pure pipeline": len(routes) == 1 and stages[0] > 1}
        rejected = [plan["kind"] for plan in report["rejected"]]
        nearby = {"more tensor parallelism", "fewer stages", "sharded parameters"}  # what differs in one thing
        self.assertLessEqual(set(rejected), set(may_be_chosen) | nearby)
        self.assertEqual(len(rejected), len(set(rejected)))
        for kind, may_be in may_be_chosen.items():
            self.assertTrue(kind in rejected or may_be, "%s is not among %s; chosen: %s" % (kind, rejected, report["plan"]))
        self.assertGreaterEqual(len(rejected), 2)  # one plan is of two kinds at most
        for wanted in ["predicted step", *rejected, *(device for u in units for device in u["devices"])]:
            self.assertIn(wanted, text)
        self.assertEqual(len(self.running.json("status")["jobs"]), before)
        self.assertEqual([node["jobs"] for node in self.running.nodes()], [{}, {}])

    def test_an_offline_plan_is_the_live_one(self):
        live = self.running.json("plan", self.main_spec)
        file = cluster.write_file(self.running.path("cluster.yaml"), self.running.cli("nodes", "--output", "cluster").out)
        offline = cluster.run_command([cluster.program("medley"), "--output", "json", "plan", self.main_spec, "--cluster", file],
                                      environment={"MEDLEY_COORDINATOR": "127.0.0.1:1"})
        self.assertEqual(offline.status, 0, offline)
        planned = offline.json()
        self.assertGreaterEqual(live["prediction_error"]["live_runs"], 1)  # the main job's
        self.assertEqual(planned, live)

    def test_what_if_changes_the_cluster_that_is_there(self):
        live = self.running.json("plan", self.main_spec)
        report = self.running.json("what-if", self.main_spec, "--remove", "b")
        self.assertEqual(report["changes"], ["removed b"])
        self.assertEqual(report["today"]["predicted_step_seconds"], live["predicted_step_seconds"])
        self.assertEqual([device["device"] for device in report["changed"]["devices"]], ["a/cpu0"])

    def test_a_trace_has_a_predicted_and_a_measured_lane_of_every_device(self):
        job = self.running.submit(self.pinned("traced"))
        self.running.wait_for_state(job, "done")
        file = self.running.path("trace.json")
        self.running.cli("trace", job, "-o", file)
        with open(file) as text:
            events = json.load(text)["traceEvents"]
        self.assertEqual(json.loads(self.running.cli("trace", job, "-o", "-").out)["traceEvents"], events)
        devices = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(devices.values()), ["a/cpu0", "b/cpu0"])
        for process in devices:
            lanes = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name" and e["pid"] == process}
            for lane in ("predicted", "measured"):
                compute = lanes["compute, " + lane]
                slices = [e for e in events if e["ph"] == "X" and e["pid"] == process and e["tid"] == compute]
                self.assertEqual({e["cat"] for e in slices}, {lane})
                names = [e["name"] for e in slices]
                for micro_batch in range(4):
                    self.assertIn("forward %d" % micro_batch, names)
                    self.assertIn("backward %d" % micro_batch, names)
                self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in slices))
                self.assertGreater(sum(e["dur"] for e in slices), 0)

    def test_an_exported_model_can_be_exported_again_and_continues_a_prompt(self):
        to = self.running.path("exported")
        for _ in range(2):
            self.running.cli("export", self.job, "--to", to)
            with open(os.path.join(to, "config.json")) as file:
                config = json.load(file)
            self.assertEqual((config["n_layer"], config["n_embd"], config["n_head"], config["vocab_size"]), (3, 32, 4, 256))
            header = read_safetensors_header(os.path.join(to, "model.safetensors"))
            self.assertEqual(header["transformer.wte.weight"]["shape"], [256, 32])
        self.assertEqual(sorted(os.listdir(to)), ["config.json", "medley.json", "model.safetensors"])
        generate = ["generate", "--model", to, "--prompt", "ta", "--tokens", "12", "--temperature", "0"]
        first = self.running.cli(*generate).out
        self.assertTrue(first.startswith("ta"), first)
        self.assertEqual(len(first), 2 + 12 + 1)
        self.assertEqual(self.running.cli(*generate).out, first)

    def test_a_repeated_submission_is_the_same_job(self):
        again = self.running.json("submit", self.main_spec, "--request-id", "the-main-job")
        self.assertEqual((again["id"], again["state"]), (self.job, "done"))

    def test_a_queued_job_can_be_cancelled(self):
        spec = self.pinned("queued")
        spec["plan"]["units"][1]["devices"] = ["nowhere/cpu0"]
        job = self.running.submit(spec)
        waits = self.running.wait_for_job(job, "what it waits for", lambda j: j["state_reason"])
        self.assertEqual((waits["state"], waits["state_reason"]),
                         ("queued", "waits for nowhere/cpu0 (not there)"))
        self.running.cli("cancel", job)
        ended = self.running.wait_for_state(job, "cancelled")
        self.assertEqual(ended["state_reason"], "cancelled by the user")
        self.assertEqual(ended["attempt"], 0)
        self.assertEqual(self.running.json("cancel", job)["state"], "cancelled")

    def test_a_running_job_can_be_cancelled_and_leaves_nothing_behind(self):
        job = self.running.submit(self.pinned("running", steps=1_000_000))
        self.running.wait_for_step(job, 3)
        self.assertEqual({j for node in self.running.nodes() for j in node["jobs"].values()}, {job})
        self.running.cli("cancel", job)
        self.running.wait_for_state(job, "cancelled")
        self.assertEqual([node["jobs"] for node in self.running.nodes()], [{}, {}])
        cluster.wait_for("the workers are gone", lambda: not self.running.workers("a") + self.running.workers("b"))
        watched = self.running.cli("watch", job, check=False)
        self.assertEqual(watched.status, 1)
        self.assertIn("was cancelled", watched.err)

    def test_a_pinned_plan_runs_exactly_so(self):
        spec = self.pinned("pinned")
        job = self.running.submit(spec)
        report = self.running.wait_for_state(job, "done")["plan"]
        self.assertTrue(report["pinned"])
        plan = report["plan"]
        self.assertEqual(plan["schedule"], "gpipe")
        self.assertEqual(plan["micro_batch_sequences"], 2)
        self.assertEqual([{"devices": u["devices"], "blocks": u["blocks"]} for u in plan["units"]], spec["plan"]["units"])
        self.assertEqual(plan["routes"], [dict(route, micro_batch_sequences=2) for route in spec["plan"]["routes"]])


if __name__ == "__main__":
    cluster.main()
