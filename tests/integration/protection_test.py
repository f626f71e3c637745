"""Messages between hosts with checksums and encrypted: the same losses to the bit, and what is asked for is what is done. Agents
whose links are TCP exchange messages as those of two hosts do."""
import cluster
from cluster import ClusterTest, core, cpu_device, cpu_variants, route, unit

STEPS = 6


class ProtectionTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        variant = cpu_variants()[-1]
        cls.running = cls.new_cluster().start(
            {name: [cpu_device(variant, core(i))] for i, name in enumerate(("a", "b"))}, links="tcp")
        # It accepts no less than a checksum.
        cls.running.start_agent("c", [cpu_device(variant, core(1))], "tcp", message_protection="checksum")
        cls.running.wait_for_nodes("c")

    def run_job(self, name, second, protection=None):
        """A pipeline of two stages. The job and its losses."""
        plan = {"micro_batch_sequences": 2, "units": [unit("a/cpu0", 0, 3), unit(second, 3, 5)], "routes": [route([0, 1], 4)]}
        asked = {} if protection is None else {"communication": {"message_protection": protection}}
        job = self.running.submit(self.spec(name, steps=STEPS, plan=plan, **asked))
        ended = self.running.wait_for_state(job, "done")
        curve = self.running.curve(job)
        self.assertEqual(len(curve), STEPS)
        return ended, curve

    def replicas(self, name, protection):
        plan = {"micro_batch_sequences": 2, "units": [unit("a/cpu0", 0, 5), unit("b/cpu0", 0, 5)],
                "routes": [route([0], 2), route([1], 2)]}
        job = self.running.submit(self.spec(name, steps=STEPS, plan=plan, communication={"message_protection": protection}))
        self.running.wait_for_state(job, "done")
        return self.running.curve(job)

    def test_losses_are_the_same_to_the_bit_and_it_is_said_what_was_done(self):
        plain, expected = self.run_job("plain", "b/cpu0")
        self.assertEqual(plain["plan"]["message_protection"], "none")
        self.assertNotIn("protected", self.running.cli("status", plain["id"]).out)
        for protection in ("checksum", "encryption"):
            with self.subTest(protection=protection):
                job, curve = self.run_job(protection, "b/cpu0", protection)
                self.assertEqual(curve, expected)
                self.assertEqual(job["plan"]["message_protection"], protection)
                self.assertIn("protected by %s" % protection, self.running.cli("status", job["id"]).out)
                self.assertIn("protected by", job["plan"]["explanation"])
                self.assertIn("message_protection: %s" % protection, self.running.cli("logs", job["id"]).out)
                # What was planned with is the link as its messages find it.
                links = self.running.json("links", "a/cpu0", "b/cpu0", "--protection", protection)["links"]
                self.assertEqual([(link["message_protection"], link["transport"]) for link in links], [(protection, "tcp")])
                self.assertIn("over: tcp, %s" % protection,
                              self.running.cli("links", "a/cpu0", "b/cpu0", "--protection", protection).out)
        links = self.running.json("links", "a/cpu0", "b/cpu0")["links"]
        self.assertEqual([link["message_protection"] for link in links], ["none"])
        # The node's own word.
        job, curve = self.run_job("least", "c/cpu0", "none")
        self.assertEqual(curve, expected)
        self.assertEqual(job["plan"]["message_protection"], "checksum")

    def test_sums_of_gradients_too(self):
        expected = self.replicas("sums-plain", "none")
        self.assertEqual(self.replicas("sums-encrypted", "encryption"), expected)

    def test_a_plan_says_it_before_anything_runs(self):
        spec = self.spec("dry", constraints={"devices": ["a/cpu0", "c/cpu0"]})
        report = self.running.json("plan", cluster.write_spec(self.running.path("dry.yaml"), spec), timeout=300)
        self.assertEqual(report["message_protection"], "checksum")

    def test_what_cannot_be_is_refused_by_field(self):
        for communication, wanted in [
                ({"message_protection": "strong"}, "communication.message_protection"),
                ({"message_protection": "encryption", "device_memory": "direct"}, "communication.device_memory")]:
            with self.subTest(communication=communication):
                path = cluster.write_spec(self.running.path("bad.yaml"), self.spec("bad", communication=communication))
                result = self.running.cli("submit", path, check=False)
                self.assertEqual(result.status, 2, str(result))
                self.assertIn(wanted, result.err)
        result = self.running.cli("links", "--protection", "strong", check=False)
        self.assertEqual(result.status, 2)
        self.assertIn("none, checksum, encryption", result.err)


if __name__ == "__main__":
    cluster.main()
