"""A model of four times what the devices hold, on one and on three unlike ones: its layers live in host memory."""
import cluster
from cluster import ClusterTest, core, cpu_device, cpu_variants, route, write_spec

STEPS = 6
LAYERS, HIDDEN = 32, 128
STATE_BYTES = 16 * LAYERS * 12 * HIDDEN * HIDDEN  # of the layers' matrices alone
SMALL, SMALLEST = "24MiB", "8MiB"


def unit(device, first, end, window_layers=0, **more):
    return {"devices": [device], "blocks": [{"first": first, "end": end}], "recompute": "layers",
            **({"window_layers": window_layers} if window_layers else {}), **more}


class LargeModelTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_cluster()
        variants = (cpu_variants() * 3)[:3]
        devices = {"large": cpu_device(variants[0], core(0)), "small": cpu_device(variants[0], core(0), memory=SMALL)}
        for index, variant in enumerate(variants):
            devices["part%d" % index] = cpu_device(variant, core(index % 2), memory=SMALLEST)
        cls.running.start({name: [device] for name, device in devices.items()})
        plan = cls.plan([unit("large/cpu0", 0, LAYERS + 2)], [0])
        cls.expected = cls.train("held", plan)

    @classmethod
    def plan(cls, units, of_route, schedule="one_forward_one_backward"):
        return {"micro_batch_sequences": 2, "schedule": schedule, "units": units, "routes": [route(of_route, 4)]}

    @classmethod
    def job(cls, name, plan):
        return cls.spec(name, steps=STEPS, plan=plan,
                        model={"gpt2": {"layers": LAYERS, "hidden": HIDDEN, "heads": 4, "vocabulary": 256}})

    @classmethod
    def train(cls, name, plan):
        job = cls.running.submit(cls.job(name, plan))
        cls.running.wait_for_state(job, "done", 300)
        done = cls.running.job(job)
        print("%s: %s; predicted %.3f s a step, measured %.3f s" % (
            name, done["plan"]["description"] if "description" in done["plan"] else "", done["plan"]["predicted_step_seconds"],
            done["measured_step_seconds"]), flush=True)
        return cls.running.curve(job)

    def test_one_device_trains_four_times_what_it_holds(self):
        self.assertGreaterEqual(STATE_BYTES, 4 * 24 << 20)
        for schedule in ("one_forward_one_backward", "gpipe"):
            with self.subTest(schedule=schedule):
                plan = self.plan([unit("small/cpu0", 0, LAYERS + 2, window_layers=2)], [0], schedule)
                self.assert_same_curves(self.expected, self.train("one-" + schedule.replace("_", "-"), plan))

    def test_three_unlike_devices_train_four_times_what_they_hold_together(self):
        plan = self.plan([unit("part0/cpu0", 0, 12, window_layers=1), unit("part1/cpu0", 12, 23, window_layers=1),
                          unit("part2/cpu0", 23, LAYERS + 2, window_layers=1)], [0, 1, 2])
        self.assert_same_curves(self.expected, self.train("three", plan))

    def test_without_windows_it_does_not_fit_and_more_windows_than_layers_there_cannot_be(self):
        job = self.running.submit(self.job("whole", self.plan([unit("small/cpu0", 0, LAYERS + 2)], [0])))
        said = self.running.wait_for_state(job, "failed", 300)["state_reason"]
        self.assertIn("units[0]: needs", said)
        self.assertIn("on small/cpu0, which allows 24.0 MiB: parameters ", said)
        # As it trains in test_one_device_trains_four_times_what_it_holds.
        self.assertIn("; units[0] would fit with window_layers: 2 (", said)
        plan = self.plan([unit("small/cpu0", 0, LAYERS + 2, window_layers=LAYERS + 1)], [0])
        result = self.running.cli("submit", write_spec(self.running.path("more.yaml"), self.job("more", plan)), check=False)
        self.assertNotEqual(result.status, 0, result)
        self.assertIn("units[0].window_layers: 33; allowed are 0 to 32", str(result))


if __name__ == "__main__":
    cluster.main()
