"""An OpenCL device beside CPU devices, in one job: one loss curve, for GPT-2 and Llama."""
import cluster
from cluster import ClusterTest, core, fast_and_slow, route, unit

STEPS = 12


def opencl_device(index):
    return {"name": "opencl0", "backend": "opencl", "cores": [index], "memory_bytes": "512MiB"}


def plans():
    fast, slow, opencl = "fast/cpu0", "slow/cpu0", "any/opencl0"
    return {
        "single": {"micro_batch_sequences": 2, "units": [unit(fast, 0, 5)], "routes": [route([0], 4)]},
        "opencl": {"micro_batch_sequences": 2, "units": [unit(opencl, 0, 5)], "routes": [route([0], 4)]},
        "pipeline": {"micro_batch_sequences": 1, "units": [unit(fast, 0, 2), unit(opencl, 2, 3), unit(slow, 3, 5)],
                     "routes": [route([0, 1, 2], 8)]},
        "replicas": {"micro_batch_sequences": 1, "units": [unit(fast, 0, 3), unit(slow, 3, 5), unit(opencl, 0, 5)],
                     "routes": [route([0, 1], 6), route([2], 2)]},
    }


class OpenClTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, slow = fast_and_slow()
        cls.running = cls.new_cluster().start({"fast": [fast], "slow": [slow], "any": [opencl_device(core(1))]})

    def run_plans(self, family, names, model):
        curves = {}
        for name in names:
            spec = self.spec("%s-%s" % (family, name), steps=STEPS, plan=plans()[name])
            if model:
                spec["model"] = model
            job = self.running.submit(spec)
            self.running.wait_for_state(job, "done", 300)  # the first compiles the kernels
            curves[name] = self.running.curve(job)
            self.assertEqual(len(curves[name]), STEPS)
            self.assert_same_curves(curves["single"], curves[name], what="%s, %s" % (family, name))

    def test_a_gpt2_trains_the_same_with_an_opencl_device_anywhere(self):
        self.run_plans("gpt2", ["single", "opencl", "pipeline", "replicas"], None)

    def test_a_llama_trains_the_same_with_an_opencl_device_anywhere(self):
        llama = {"layers": 3, "hidden": 32, "heads": 4, "key_value_heads": 2, "feed_forward": 96, "tied_head": False}
        self.run_plans("llama", ["single", "opencl", "pipeline", "replicas"], {"llama": llama})

    def test_the_planner_measures_it_and_may_use_it(self):
        spec = self.spec("planned", steps=STEPS, constraints={"devices": ["fast/cpu0", "any/opencl0"],
                                                              "micro_batch_sizes": [2]})
        job = self.running.submit(spec)
        self.running.wait_for_state(job, "done", 300)

    def test_its_kernels_are_listed_with_what_declined(self):
        listed = self.running.cli("nodes", "--kernels", "any").out
        for wanted in ("CLBlast", "Matmul", "AttentionForward"):
            self.assertIn(wanted.lower(), listed.lower())


if __name__ == "__main__":
    cluster.main()
