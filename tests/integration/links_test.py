"""`medley links`: what was measured between devices, how sums would go over it, and what a job has exchanged."""
import glob
import os

import cluster
from cluster import ClusterTest, core, cpu_device, cpu_variants, route, unit

DEVICES = ["a/cpu0", "a/cpu1", "b/cpu0"]
SECRET_FIELD = "attempt_secret"


class LinksTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        variant = cpu_variants()[0]
        cls.devices = {"a": [cpu_device(variant, core(0), "cpu0"), cpu_device(variant, core(1), "cpu1")],
                       "b": [cpu_device(variant, core(1), "cpu0")]}
        cls.running = cls.new_cluster().start(cls.devices)
        before = cls.running.json("links")
        cls.before = cls.running.cli("links").out
        if before.get("links") or before["devices"] != DEVICES:
            raise AssertionError("links before anything was measured: %s" % before)
        cls.unmeasured = cls.running.cli("links", "a/cpu0", "b/cpu0", check=False)
        cls.refreshed = cls.running.json("links", "--refresh", timeout=300)
        cls.job = cls.running.submit(cls.spec("talk", steps=8, plan={
            "micro_batch_sequences": 4, "units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)],
            "routes": [route([0, 1], 2)]}))
        cls.running.wait_for_state(cls.job, "done")

    def links(self, *arguments, **options):
        return self.running.cli("links", *arguments, **options)

    def test_before_anything_was_measured_every_pair_is_unknown_and_it_says_what_helps(self):
        self.assertIn("3 pairs have not been measured", self.before)
        self.assertIn("medley links --refresh", self.before)
        self.assertEqual(self.unmeasured.status, 1)
        self.assertIn("a/cpu0 - b/cpu0 was not measured yet", self.unmeasured.err)

    def test_every_pair_of_devices_on_one_machine_is_measured_by_itself(self):
        pairs = {tuple(sorted((link["a"], link["b"]))) for link in self.refreshed["links"]}
        self.assertEqual(pairs, {("a/cpu0", "a/cpu1"), ("a/cpu0", "b/cpu0"), ("a/cpu1", "b/cpu0")})
        for link in self.refreshed["links"]:
            self.assertEqual(link["measured_between"], "")
            self.assertIn(link["transport"], ("shared memory", "tcp"))
            self.assertGreater(link["bytes_per_second"], 1e6)
            self.assertGreater(link["measured_at_seconds"], 1e9)
            self.assertTrue(link["provenance"])

    def test_curves_rise(self):
        for link in self.refreshed["links"]:
            for curve in ("transfer", "exchange"):
                points = link[curve]
                self.assertGreaterEqual(len(points), 2, link)
                for earlier, later in zip(points, points[1:]):
                    self.assertLess(earlier["bytes"], later["bytes"])
                    self.assertLessEqual(earlier["seconds"], later["seconds"])

    def test_the_matrix(self):
        text = self.links().out
        print(text, flush=True)
        lines = text.splitlines()
        self.assertEqual(lines[0].split(), DEVICES)
        self.assertRegex(text, r"(?m)^a/cpu0 .*(us|ms)")
        self.assertRegex(text, r"(?m)^b/cpu0 .*B/s")
        self.assertRegex(text, r"[0-9]+ (s|min [0-9]+ s) ago")
        self.assertNotIn("have not been measured", text)

    def test_a_pair_by_size_whichever_end_is_named_first(self):
        text = self.links("a/cpu0", "b/cpu0").out
        print(text, flush=True)
        for wanted in ("a/cpu0 - b/cpu0", "8 B", "64.0 KiB", "64.0 MiB", "EXCHANGE", "measured: "):
            self.assertIn(wanted, text)
        self.assertTrue(self.links("b/cpu0", "a/cpu0").out.startswith("b/cpu0 - a/cpu0\n"))
        self.assertEqual(len(self.running.json("links", "a/cpu0", "b/cpu0")["links"]), 1)

    def test_a_pair_can_be_measured_anew(self):
        before = self.running.json("links", "a/cpu0", "a/cpu1")["links"][0]["measured_at_seconds"]
        self.links("a/cpu0", "a/cpu1", "--refresh", timeout=300)
        links = {(link["a"], link["b"]): link for link in self.running.json("links")["links"]}
        self.assertGreater(links["a/cpu0", "a/cpu1"]["measured_at_seconds"], before)

    def test_how_a_group_would_sum(self):
        arguments = ("--explain", "--devices", ",".join(DEVICES), "--bytes", "16MiB")
        text = self.links(*arguments).out
        print(text, flush=True)
        self.assertIn("summing 16.0 MiB of f32 over 3 devices: ", text)
        answer = self.running.json("links", *arguments)
        self.assertEqual(answer["bytes"], 16 << 20)
        self.assertEqual(len(answer["candidates"]), 4)
        self.assertEqual(answer["candidates"][0]["algorithm"], answer["chosen"])
        possible = [candidate for candidate in answer["candidates"] if not candidate["impossible"]]
        times = [candidate["predicted_seconds"] for candidate in possible]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)

    def test_mistakes_are_said_in_one_line_and_change_nothing(self):
        for arguments, status, wanted in [
                (("a/cpu0", "c/cpu7"), 2, "c/cpu7"),
                (("a/cpu0",), 2, "name two devices"),
                (("a/cpu0", "a/cpu0", "--refresh"), 2, "two different"),
                (("--explain",), 2, "--bytes"),
                (("--explain", "--devices", "a/cpu0,b/cpu0"), 2, "--bytes"),
                (("--explain", "--devices", "a/cpu0,c/cpu0", "--bytes", "1MiB"), 2, "there are a/cpu0, a/cpu1, b/cpu0"),
                (("--devices", "a/cpu0,b/cpu0", "--bytes", "1MiB"), 2, "--explain"),
                (("--explain", "--devices", "a/cpu0,b/cpu0", "--bytes", "many"), 2, "many"),
                (("--job", "no-such-job"), 1, "no-such-job"),
                (("--job", self.job, "--refresh"), 2, "--job")]:
            with self.subTest(arguments=arguments):
                result = self.links(*arguments, check=False)
                self.assertEqual(result.status, status, str(result))
                self.assertIn(wanted, result.err)
                self.assertEqual(result.out, "")

    def test_links_are_not_measured_beside_a_job(self):
        # Steps of tens of milliseconds and far more of them than there is time for.
        job = self.running.submit(self.spec("busy", steps=100000, batch={"sequences": 64, "sequence_length": 32},
                                            constraints={"devices": ["b/cpu0"], "micro_batch_sizes": [8]}))
        self.running.wait_for_step(job, 1)
        result = self.links("--refresh", check=False)
        self.running.cli("cancel", job)
        self.running.wait_for_state(job, "cancelled")
        self.assertEqual(result.status, 1)
        self.assertIn("b/cpu0 is in use", result.err)

    def test_what_a_job_has_exchanged(self):
        trace = self.running.json("links", "--job", self.job)
        self.assertGreaterEqual(trace["step"], 4)
        lanes = {lane["device"]: lane for lane in trace["lanes"]}
        self.assertEqual(set(lanes), {"a/cpu0", "b/cpu0"})
        traffic = {device: {entry["operation"]: entry for entry in lane["traffic"]} for device, lane in lanes.items()}
        # Two micro-batches of 4 windows of 32 tokens of 32 floats, each step, both ways.
        expected = trace["step"] * 2 * 4 * 32 * 32 * 4
        sent, received = traffic["a/cpu0"]["activation"], traffic["b/cpu0"]["activation"]
        self.assertEqual(sent["bytes_sent"], expected)
        self.assertEqual(received["bytes_received"], expected)
        self.assertEqual(sent["messages_sent"], 2 * trace["step"])
        self.assertEqual(traffic["b/cpu0"]["gradient"]["bytes_sent"], expected)
        self.assertEqual(trace["lanes"][sent["peer"]]["device"], "b/cpu0")
        self.assertTrue(sent["strategy"])
        self.assertGreater(received["wait_seconds"], 0)
        self.assertTrue(all(not lane["instructions"] for lane in trace["lanes"]))
        text = self.links("--job", self.job).out
        print(text, flush=True)
        for wanted in ("activation", "gradient", "a/cpu0", "b/cpu0", sent["strategy"]):
            self.assertIn(wanted, text)

    def test_no_secret_of_an_attempt_is_kept_or_shown(self):
        """The bytes are random and known to no test; what would show them is named after the field, or is a text of as many
        random bytes. orchestrator_test looks for the bytes themselves."""
        said = "".join(self.running.cli(*command).out for command in [
            ("links", "--output", "json"), ("links", "--job", self.job, "--output", "json"), ("logs", self.job),
            ("status", self.job, "--output", "json"), ("plan", self.running.path("talk.job.yaml"), "--output", "json"),
            ("nodes", "--output", "cluster"), ("trace", self.job, "-o", "-")])
        self.assertIn("a/cpu0", said)
        self.assertNotIn(SECRET_FIELD, said)
        files = [path for path in glob.glob(os.path.join(self.running.directory, "**"), recursive=True)
                 if os.path.isfile(path)]
        self.assertTrue(any(path.endswith("medley.db") for path in files))
        self.assertTrue(any(path.endswith("a.log") for path in files))
        for path in files:
            with open(path, "rb") as file:
                content = file.read()
            self.assertNotIn(SECRET_FIELD.encode(), content, path)
            if path.endswith(".log"):
                self.assertNotRegex(content.decode(errors="replace"), r"\b[0-9a-f]{64}\b", path)


if __name__ == "__main__":
    cluster.main()
