"""Rehearsals: devices that take time and compute nothing run a real job, are marked everywhere, and never get into another."""
import os
import re
import signal

import cluster
from cluster import ClusterTest, core, cpu_device, route, unit, write_file, write_spec

# Seconds of a layer, of one micro-batch of 2 windows: long beside what sleeping and messages take of this machine.
FORWARD, BACKWARD = 0.02, 0.045
SHORT = 2e-4  # seconds, beside these
MORE_STEPS = 200  # two minutes: a machine that is late in all of them is not busy, the plan takes longer

PROFILE = """
kind: %(kind)s
memory_bytes: %(memory)s
matmul_f32_flops_per_second: 20e9
memory_bytes_per_second: 20e9
host_link_bytes_per_second: 5e9
op_overhead_seconds: 20e-6
layers:
  - {hidden: 32, feed_forward: 128, heads: 4, sequence: 32, micro_batch: 2, precision: f32, forward_ms: %(forward)g,
     backward_ms: %(backward)g}
"""


class EmulatedTest(ClusterTest):
    @classmethod
    def emulated_device(cls, slowness=1, kind="Fast-1", memory="80GiB"):
        path = os.path.join(cls.directory, kind + ".yaml")
        write_file(path, PROFILE % {"kind": kind, "memory": memory, "forward": 1e3 * FORWARD * slowness,
                                    "backward": 1e3 * BACKWARD * slowness})
        return {"name": "gpu0", "backend": "emulated", "profile": path}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_cluster().start(
            {"fast": [cls.emulated_device()], "slow": [cls.emulated_device(2, "Slow-2", "16GiB")]})

    @staticmethod
    def pipeline():
        """Two layers on the fast one, one on the slow: four micro-batches of two windows."""
        return {"micro_batch_sequences": 2, "units": [unit("fast/gpu0", 0, 3), unit("slow/gpu0", 3, 5)],
                "routes": [route([0, 1], 4)]}

    def predicted_of_exact_times(self, spec):
        """Seconds of a step, planned from a file: the cluster as it was measured, but layers take what their profile says, and
        embedding and head, which take next to nothing, no longer than an idle machine does."""
        lines, slowness = [], 1
        for line in self.running.cli("nodes", "--output", "cluster").out.split("\n"):
            if "device_kind:" in line:
                slowness = 2 if "Slow-2" in line else 1
            for name, seconds in (("layer_forward_seconds", FORWARD), ("layer_backward_seconds", BACKWARD)):
                line = re.sub(name + r": [0-9.e+-]+", "%s: %g" % (name, slowness * seconds), line)
            line = re.sub(r"((?:embedding|head)_(?:forward|backward)_seconds): ([0-9.e+-]+)",
                          lambda found: "%s: %g" % (found[1], min(float(found[2]), SHORT)), line)
            lines.append(line)
        file = write_file(self.running.path("exact.cluster.yaml"), "\n".join(lines))
        path = write_spec(self.running.path("exact.yaml"), spec)
        return self.running.json("plan", "--cluster", file, path)["predicted_step_seconds"]

    def fastest_as_predicted(self, spec, job_id, predicted, tolerance):
        """Seconds of the fastest step of the job or, where no step of it was as predicted, of it and MORE_STEPS more. The fastest, for
        devices that sleep are never early, and that a busy machine wakes them late says nothing of the prediction; it does not in each
        of so many steps. What a plan itself takes longer than is predicted its fastest step takes longer, too."""
        def fastest(job):
            return min((step["step_seconds"] for step in self.running.steps(job)), default=float("inf"))

        most = (1 + tolerance) * predicted
        best = fastest(job_id)
        if best > most:
            print("%s: step %.1f ms at best, %.1f ms predicted; going on" % (job_id, 1e3 * best, 1e3 * predicted), flush=True)
            more = self.running.submit({**spec, "name": spec["name"] + "-more", "steps": MORE_STEPS})
            self.running.wait_for_job(more, "its end or a step of %g s" % predicted,
                                      lambda job: job["state"] in cluster.ENDED or fastest(more) <= most, seconds=600)
            self.running.cli("cancel", more, check=False)  # it may have ended by itself
            ended = self.running.wait_for_job(more, "its end", lambda job: job["state"] in cluster.ENDED)
            self.assertIn(ended["state"], ("done", "cancelled"), ended["state_reason"])
            best = min(best, fastest(more))
        self.assertLessEqual(abs(best - predicted), tolerance * predicted,
                             "%s: %.1f ms at best, %.1f ms predicted" % (spec["name"], 1e3 * best, 1e3 * predicted))
        return best

    def test_a_rehearsal_takes_its_profiles_time_and_is_marked_everywhere(self):
        spec = self.spec("rehearsal", steps=20, allow_emulated=True, plan=self.pipeline())
        watched = self.running.cli("submit", write_spec(self.running.path("rehearsal.yaml"), spec), "--watch").out
        job_id = watched.split("\n")[0]
        job = self.running.job(job_id)
        self.assertEqual(job["state"], "done", job["state_reason"])
        self.assertTrue(job["plan"]["emulated"])
        steps = self.running.steps(job_id)
        self.assertEqual([(step["step"], step["emulated"], step["loss"]) for step in steps],
                         [(n, True, 0) for n in range(1, 21)])

        predicted = self.predicted_of_exact_times(spec)
        fastest = self.fastest_as_predicted(spec, job_id, predicted, 0.02)
        print("step %.1f ms at best, %.1f ms predicted, %.1f ms by the measured profile" % (
            1e3 * fastest, 1e3 * predicted, 1e3 * job["plan"]["predicted_step_seconds"]), flush=True)
        self.assertGreaterEqual(fastest, 0.999 * 5 * 2 * (FORWARD + BACKWARD))  # both stages take as long, four micro-batches and a fill

        for what, text in {
            "watch": watched,
            "status": self.running.cli("status", job_id).out,
            "logs": self.running.cli("logs", job_id).out,
            "plan": self.running.cli("plan", write_spec(self.running.path("again.yaml"), spec), "--explain").out,
        }.items():
            with self.subTest(view=what):
                self.assertIn("EMULATED", text)
        for command in (["status"], ["status", job_id], ["steps", job_id]):
            text = self.running.cli(*command).out
            self.assertIn("emulated", text)
            self.assertNotIn("0.0000", text.replace("EMULATED", ""))
        self.assertNotIn("loss 0", watched)

    def test_gradients_of_weights_that_are_put_off_fill_the_bubble_as_predicted(self):
        fastest = {}
        for schedule in ("1f1b", "zb-h1"):
            spec = self.spec("put-off-" + schedule, steps=12, allow_emulated=True, plan={"schedule": schedule, **self.pipeline()})
            job = self.running.wait_for_state(self.running.submit(spec), "done")
            self.assertIn(schedule, job["plan"]["description"])
            predicted = self.predicted_of_exact_times(spec)
            fastest[schedule] = self.fastest_as_predicted(spec, job["id"], predicted, 0.03)
            print("%s: step %.1f ms at best, %.1f ms predicted" % (schedule, 1e3 * fastest[schedule], 1e3 * predicted), flush=True)
        # Two stages that take as long: putting off saves the gradient of one stage's weights twice over, here a third of a stage's
        # backward or more.
        self.assertLessEqual(fastest["zb-h1"], fastest["1f1b"] - 2 * BACKWARD / 3)

    def test_replicas_and_layers_in_host_memory_take_what_is_predicted(self):
        whole = {device: unit(device + "/gpu0", 0, 5) for device in ("fast", "slow")}
        # Three layers, forward and backward, for each micro-batch of the fast one.
        for name, passes, plan in (
                ("replicas", 9, {"units": [whole["fast"], whole["slow"]], "routes": [route([0], 3), route([1], 1)]}),
                ("host-layers", 12, {"units": [{**whole["fast"], "window_layers": 2}], "routes": [route([0], 4)], "schedule": "gpipe"})):
            with self.subTest(plan=name):
                spec = self.spec(name, steps=12, allow_emulated=True, plan={"micro_batch_sequences": 2, **plan})
                job = self.running.wait_for_state(self.running.submit(spec), "done")
                predicted = self.predicted_of_exact_times(spec)
                fastest = self.fastest_as_predicted(spec, job["id"], predicted, 0.03)
                print("%s: step %.1f ms at best, %.1f ms predicted" % (name, 1e3 * fastest, 1e3 * predicted), flush=True)
                self.assertGreaterEqual(fastest, 0.999 * passes * (FORWARD + BACKWARD))

    def test_an_order_that_the_planner_makes_runs_as_predicted_and_can_be_named(self):
        spec = self.spec("ordered", steps=12, allow_emulated=True,
                         constraints={"micro_batch_sizes": [2], "max_routes": 1, "schedules": ["1f1b", "listed"]})
        job = self.running.wait_for_state(self.running.submit(spec), "done")
        self.assertEqual(job["plan"]["plan"]["schedule"], "listed")
        self.assertIn("% faster than", job["plan"]["orders"])
        pinned = {**spec, "name": "ordered-again", "plan": job["plan"]["plan"]}
        del pinned["constraints"]
        predicted = self.predicted_of_exact_times(pinned)
        fastest = self.fastest_as_predicted(pinned, job["id"], predicted, 0.03)
        print("ordered: step %.1f ms at best, %.1f ms predicted" % (1e3 * fastest, 1e3 * predicted), flush=True)
        again = self.running.wait_for_state(self.running.submit(pinned), "done")
        self.assertEqual(again["plan"]["plan"], job["plan"]["plan"])

    def test_a_job_with_an_order_of_its_own_recovers_with_one(self):
        spec = self.spec("ordered-on", steps=1_000_000, allow_emulated=True,
                         constraints={"micro_batch_sizes": [2], "max_routes": 1, "schedules": ["1f1b", "listed"]})
        job_id = self.running.submit(spec)
        before = self.running.wait_for_step(job_id, 2)
        os.kill(self.running.workers("slow")[0], signal.SIGKILL)
        self.running.wait_for_job(job_id, "another attempt", lambda job: job["attempt"] > before["attempt"])
        after = self.running.wait_for_job(job_id, "a step of it", lambda job: any(
            step["attempt"] > before["attempt"] for step in self.running.steps(job_id)[-1:]))
        self.running.cli("cancel", job_id)
        self.running.wait_for_state(job_id, "cancelled")
        for job in (before, after):
            self.assertEqual(job["plan"]["plan"]["schedule"], "listed")

    def test_nodes_and_plans_say_what_the_profiles_are_from(self):
        spec = self.spec("planned", allow_emulated=True, constraints={"micro_batch_sizes": [2]})
        report = self.running.json("plan", write_spec(self.running.path("planned.yaml"), spec))
        self.assertEqual(len(report["profiles"]), 2)
        self.assertTrue(all("Medley" in profile["provenance"] for profile in report["profiles"]))
        answer = self.running.json("nodes")
        devices = {node["name"]: node["devices"][0] for node in answer["nodes"]}
        for name, kind, memory in (("fast", "Fast-1", 80), ("slow", "Slow-2", 16)):
            self.assertTrue(devices[name]["emulated"])
            self.assertEqual((devices[name]["backend"], devices[name]["variant"]), ("emulated", kind))
            self.assertEqual(devices[name]["memory_bytes"], memory << 30)
            self.assertIn("emulated " + kind, devices[name]["kind"])
        measured = {profile["device_kind"]: profile["measured_with"] for profile in answer["profiles"]}
        self.assertEqual(measured[devices["fast"]["kind"]]["hardware"], "emulated Fast-1")
        self.assertEqual(measured[devices["fast"]["kind"]]["device"], "fast/gpu0")
        text = self.running.cli("nodes").out
        for wanted in ("emulated", "Fast-1", "PROFILED", "fast/gpu0 on host"):
            self.assertIn(wanted, text)

    def test_the_profile_that_the_planner_gets_is_what_was_asked_for(self):
        spec = self.spec("profiled", allow_emulated=True, constraints={"micro_batch_sizes": [2]})
        self.running.json("plan", write_spec(self.running.path("profiled.yaml"), spec))
        for profile in self.running.json("nodes")["profiles"]:
            slowness = 2 if "Slow-2" in profile["device_kind"] else 1
            times = next(times for times in profile["times"] if times["micro_batch_sequences"] == 2)
            for name, wanted in (("layer_forward_seconds", FORWARD), ("layer_backward_seconds", BACKWARD)):
                self.assertGreaterEqual(times[name], 0.99 * slowness * wanted)
                self.assertLessEqual(times[name], 1.9 * slowness * wanted)  # this machine may be busy

    def test_another_job_does_not_get_an_emulated_device(self):
        pinned = write_spec(self.running.path("pinned.yaml"), self.spec("pinned", plan=self.pipeline()))
        result = self.running.cli("submit", pinned, "--watch", check=False)
        job = self.running.job(result.out.split("\n")[0])
        self.assertEqual((job["state"], job["restarts"]), ("failed", 0))
        refusal = "plan.units: fast/gpu0, slow/gpu0 are emulated and would compute nothing; a rehearsal says " \
                  "allow_emulated: true"
        self.assertEqual(job["state_reason"], refusal)
        planned = self.running.cli("plan", pinned, check=False)
        self.assertEqual(planned.status, 2)
        self.assertRegex(planned.err, r"^medley: %s:\d+: %s\n$" % (re.escape(pinned), re.escape(refusal)))

        named = self.running.cli("plan", write_spec(self.running.path("named.yaml"), self.spec(
            "named", constraints={"devices": ["fast/gpu0"]})), check=False)
        self.assertIn("constraints.devices: fast/gpu0 is emulated", named.err)

        any_device = self.spec("any")
        planned = self.running.cli("plan", write_spec(self.running.path("any.yaml"), any_device), check=False)
        self.assertIn("does not have allow_emulated: true", planned.err)
        waiting = self.running.submit(any_device)
        self.running.wait_for_job(waiting, "why it waits", lambda j: "a device that is not emulated" in j["state_reason"])
        self.assertEqual(self.running.job(waiting)["state"], "queued")
        # It keeps no rehearsal waiting.
        rehearsal = self.running.submit(self.spec("meanwhile", steps=6, allow_emulated=True, plan=self.pipeline()))
        self.running.wait_for_state(rehearsal, "done")
        self.running.cli("cancel", waiting)

    def test_a_rehearsal_writes_no_checkpoints(self):
        spec = self.spec("saves", allow_emulated=True, checkpoint={"directory": self.running.path("checkpoints")})
        for command in ("submit", "plan"):
            result = self.running.cli(command, write_spec(self.running.path("saves.yaml"), spec), check=False)
            self.assertEqual(result.status, 2, result)
            self.assertIn("checkpoint.directory", result.err)
            self.assertIn("allow_emulated", result.err)

    def test_real_devices_beside_emulated_ones_train_alone_or_rehearse_together(self):
        mixed = self.new_cluster().start({"real": [cpu_device(cluster.cpu_variants()[0], core(0))],
                                          "fake": [self.emulated_device()]})
        job = mixed.wait_for_state(mixed.submit(self.spec("real", steps=5)), "done")
        self.assertEqual([share["device"] for share in job["plan"]["devices"]], ["real/cpu0"])
        self.assertFalse(job["plan"]["emulated"])
        self.assertTrue(all(step["loss"] > 1 for step in mixed.steps(job["id"])))
        plan = {"micro_batch_sequences": 2, "units": [unit("real/cpu0", 0, 2), unit("fake/gpu0", 2, 5)],
                "routes": [route([0, 1], 4)]}
        both = mixed.wait_for_state(mixed.submit(self.spec("both", steps=5, allow_emulated=True, plan=plan)),
                                    "done")
        self.assertTrue(both["plan"]["emulated"])
        mixed.kill_all()

    def test_a_profile_that_cannot_be_is_refused_with_its_line(self):
        bad = write_file(self.running.path("bad.yaml"), "kind: X\nmemory: 80GiB\n")
        for device, *wanted in (
                ({"name": "gpu0", "backend": "emulated", "profile": bad}, "devices[0] (gpu0).profile", "bad.yaml:2:", "memory"),
                ({"name": "gpu0", "backend": "emulated", "profile": "/nowhere.yaml"}, "/nowhere.yaml"),
                ({"name": "gpu0", "backend": "emulated"}, "devices[0] (gpu0).profile", "is empty"),
                ({**cpu_device("sse41"), "profile": bad}, "devices[0] (cpu0).profile", "emulated"),
                ({"name": "cpu0", "backend": "cpu"}, "devices[0] (cpu0).memory_bytes", "not given")):
            with self.subTest(wanted=wanted):
                config = write_spec(self.running.path("agent.yaml"), {
                    "name": "z", "coordinator_address": self.running.address, "devices": [device]})
                result = cluster.run_command([cluster.program("medley-agent"), "--config", config])
                self.assertEqual(result.status, 2, result)
                for text in wanted:
                    self.assertIn(text, result.err)


if __name__ == "__main__":
    cluster.main()
