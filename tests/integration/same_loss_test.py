"""The same job under unlike plans, on unlike devices, over unlike links: one loss curve."""
import cluster
from cluster import ClusterTest, core, fast_and_slow, reference_device, route, unit

STEPS = 20


def plan(schedule, units, routes, micro_batch=2, **more):
    return {"micro_batch_sequences": micro_batch, "schedule": schedule, "units": units, "routes": routes, **more}


def shared(devices, blocks, heads=None, **more):
    """A unit of several devices, or of several ranges of blocks; heads: of each device, and of the rest in proportion."""
    shares = [{"key_value_heads": h, "feed_forward": 32 * h, "vocabulary": 64 * h} for h in heads or []]
    return {"devices": devices, "blocks": [{"first": first, "end": end} for first, end in blocks],
            **({"shares": shares} if shares else {}), **more}


def plans(prefix):
    fast, slow, reference = prefix + "fast/cpu0", prefix + "slow/cpu0", prefix + "plain/ref0"
    one_f_one_b, gpipe = "one_forward_one_backward", "gpipe"
    return {
        "single": plan(one_f_one_b, [unit(fast, 0, 5)], [route([0], 4)]),
        "single-reference": plan(one_f_one_b, [unit(reference, 0, 5)], [route([0], 1)], micro_batch=8),
        "pipeline-1f1b": plan(one_f_one_b, [unit(fast, 0, 3), unit(slow, 3, 5)], [route([0, 1], 4)]),
        "pipeline-gpipe": plan(gpipe, [unit(fast, 0, 2), unit(slow, 2, 5)], [route([0, 1], 8)], micro_batch=1),
        "pipeline-of-three": plan(one_f_one_b, [unit(slow, 0, 1), unit(reference, 1, 2), unit(fast, 2, 5)],
                                  [route([0, 1, 2], 4)]),
        "unequal-routes": plan(one_f_one_b, [unit(fast, 0, 3), unit(slow, 3, 5), unit(reference, 0, 5)],
                               [route([0, 1], 6), route([2], 2)], micro_batch=1),
        "unequal-micro-batches": plan(one_f_one_b, [unit(fast, 0, 3), unit(slow, 3, 5), unit(reference, 0, 5)],
                                      [route([0, 1], 5, micro_batch=1), route([2], 1, micro_batch=3)]),
        "tensor-parallel": plan(one_f_one_b, [shared([fast, slow], [(0, 5)])], [route([0], 4)]),
        "tensor-parallel-in-parts": plan(one_f_one_b, [shared([fast, slow], [(0, 5)], heads=[3, 1], exchange_parts=2)],
                                         [route([0], 4)]),
        "sequence-parallel": plan(one_f_one_b, [shared([fast, slow], [(0, 5)], sequence_parallel=True)], [route([0], 4)]),
        "sequence-parallel-recomputed": plan(one_f_one_b, [shared([fast, slow], [(0, 3)], heads=[3, 1], recompute="layers",
                                                                  sequence_parallel=True), unit(reference, 3, 5)],
                                             [route([0, 1], 4)]),
        "tensor-parallel-of-three": plan(gpipe, [shared([fast, slow, reference], [(0, 5)], heads=[2, 1, 1])], [route([0], 2)],
                                         micro_batch=4),
        "unlike-replicas": plan(one_f_one_b, [shared([fast, slow], [(0, 5)], heads=[3, 1]), unit(reference, 0, 5)],
                                [route([0], 3), route([1], 1)]),
        "tensor-parallel-stage": plan(one_f_one_b, [unit(reference, 0, 2), shared([fast, slow], [(2, 5)], heads=[3, 1])],
                                      [route([0, 1], 4)]),
        "several-ranges": plan(one_f_one_b, [shared([fast], [(0, 2), (3, 5)]), unit(slow, 2, 3)], [route([0, 1, 0], 4)]),
        "zero-bubble": plan("zero_bubble_h1", [unit(fast, 0, 3), unit(slow, 3, 5)], [route([0, 1], 4)]),
        "steps-ahead-of-norms": plan("zero_bubble_h1", [unit(fast, 0, 3), unit(slow, 3, 5)], [route([0, 1], 4)], post_validation=True),
        "down-and-up": plan("zero_bubble_v", [shared([fast], [(0, 1), (4, 5)]), unit(slow, 1, 4)], [route([0, 1, 0], 4)]),
        "interleaved-1f1b": plan("interleaved_1f1b", [shared([fast], [(0, 1), (2, 3)]), shared([slow], [(1, 2), (3, 5)])],
                                 [route([0, 1, 0, 1], 4)]),
        "interleaved-gpipe": plan("interleaved_gpipe", [shared([fast], [(0, 1), (2, 3)]), shared([slow], [(1, 2), (3, 5)])],
                                  [route([0, 1, 0, 1], 4)]),
        "many-to-many": plan(one_f_one_b, [unit(fast, 0, 3), unit(reference, 0, 3), unit(slow, 3, 5)],
                             [route([0, 2], 3), route([1, 2], 2, micro_batch=1)]),
        "layers-on-the-host": plan(gpipe, [shared([fast], [(0, 3)], window_layers=1),
                                           shared([slow], [(3, 5)], window_layers=1, recompute="layers")], [route([0, 1], 4)]),
        "shared-layers-on-the-host": plan(one_f_one_b, [shared([fast, slow], [(0, 5)], heads=[3, 1], window_layers=2),
                                                        unit(reference, 0, 5)], [route([0], 3), route([1], 1)]),
        "layers-on-the-peers": plan(gpipe, [shared([fast, slow], [(0, 5)], heads=[3, 1], window_layers=1, layers_home="peers"),
                                            shared([reference], [(0, 5)], window_layers=2, layers_home="peers",
                                                   optimizer_weight=3)], [route([0], 3), route([1], 1)], shards_optimizer=True),
        "gradients-on-the-peers": plan(gpipe, [shared([fast], [(0, 3)], window_layers=1, layers_home="gradients_on_peers"),
                                               shared([slow], [(3, 5)], window_layers=1, layers_home="gradients_on_peers"),
                                               shared([reference], [(0, 5)], window_layers=1, layers_home="gradients_on_peers")],
                                       [route([0, 1], 3), route([2], 1)], shards_optimizer=True),
        "activations-on-the-host": plan(gpipe, [shared([fast], [(0, 3)], activations_home="host"),
                                                shared([slow], [(3, 5)], activations_home="host", window_layers=1)],
                                        [route([0, 1], 8)], micro_batch=1),
        "activations-of-some-layers-on-the-host": plan(gpipe, [shared([fast], [(0, 3)], activations_home="host", homed_layers=1),
                                                               unit(slow, 3, 5)], [route([0, 1], 8)], micro_batch=1),
        "recomputed": plan(one_f_one_b, [shared([fast], [(0, 3)], recompute="layers", recomputed_layers=1),
                                         shared([slow], [(3, 5)], recompute="all_but_attention")], [route([0, 1], 4)]),
    }


class SameLossTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_cluster()
        cls.running.start_coordinator()
        cls.start_agents("", "automatic")
        cls.expected = cls.run_plan("single", plans("")["single"])

    @classmethod
    def start_agents(cls, prefix, links):
        fast, slow = fast_and_slow()
        devices = {"fast": fast, "slow": slow, "plain": reference_device(core(1))}
        for name, device in devices.items():
            cls.running.start_agent(prefix + name, [device], links)
        cls.running.wait_for_nodes(*(prefix + name for name in devices))

    @classmethod
    def run_plan(cls, name, pinned):
        job = cls.running.submit(cls.spec(name, steps=STEPS, plan=pinned))
        cls.running.wait_for_state(job, "done")
        curve = cls.running.curve(job)
        assert len(curve) == STEPS, curve
        return curve

    def check_all(self, prefix, names):
        for name in names:
            with self.subTest(plan=prefix + name):
                curve = self.run_plan(prefix + name, plans(prefix)[name])
                self.assert_same_curves(self.expected, curve, what=prefix + name)

    def test_every_plan_trains_the_same(self):
        self.check_all("", [name for name in plans("") if name != "single"])

    def test_the_same_plan_twice_is_the_same_to_the_last_bit(self):
        self.assertEqual(self.run_plan("again", plans("")["single"]), self.expected)

    def test_the_order_of_the_data_is_the_job_s_alone(self):
        curves = []
        for name in ("single", "unequal-routes"):
            spec = self.spec("shuffled-" + name, steps=STEPS, plan=plans("")[name])
            spec["data"]["order"] = "shuffled"
            job = self.running.submit(spec)
            self.running.wait_for_state(job, "done")
            curves.append(self.running.curve(job))
        self.assert_same_curves(*curves)
        self.assertNotEqual(curves[0], self.expected)

    def test_tcp_and_shared_memory_carry_the_same(self):
        for links in ("tcp", "shared-memory"):
            self.start_agents(links + "-", links)
            self.check_all(links + "-", ["pipeline-1f1b", "unequal-routes", "tensor-parallel-stage"])
            self.assertEqual(self.workers_use_tcp(links + "-"), links == "tcp")

    def workers_use_tcp(self, prefix):
        """Whether the workers of a running pipeline exchange data by TCP, beside the one connection of their session."""
        job = self.running.submit(self.spec(prefix + "endless", steps=1_000_000, plan=plans(prefix)["pipeline-1f1b"]))
        self.running.wait_for_step(job, 2)
        workers = self.running.workers(prefix + "fast") + self.running.workers(prefix + "slow")
        self.assertEqual(len(workers), 2)
        connected = [cluster.tcp_connections(worker) > 1 for worker in workers]
        self.running.cli("cancel", job)
        self.running.wait_for_state(job, "cancelled")
        self.assertEqual(len(set(connected)), 1, connected)
        return connected[0]


if __name__ == "__main__":
    cluster.main()
