#!/usr/bin/env python3
"""The limits that discretisation.py finds, where they can be found by hand."""
import itertools
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from discretisation import Job, Times, cuts, limit, pipeline_seconds


def times(layer, sizes=(1,), head=0.0, put_off=0.0):
    """A third of a layer's time is its forward's."""
    return Times([{"micro_batch_sequences": size, "embedding_forward_seconds": 0, "embedding_backward_seconds": 0,
                   "layer_forward_seconds": size * layer / 3, "layer_backward_seconds": size * layer * 2 / 3,
                   "head_forward_seconds": size * head / 3, "head_backward_seconds": size * head * 2 / 3,
                   "layer_weight_gradient_seconds": size * layer * put_off} for size in sizes])


class DiscretisationTest(unittest.TestCase):
    def test_sequences_that_can_be_shared_by_speed_lose_nothing(self):
        job = Job({"fast": times(1), "slow": times(3)}, 1, [1])
        alone = [job.step_seconds({kind: 1}, 8) for kind in ("fast", "slow")]
        self.assertEqual(alone, [8, 24])
        self.assertAlmostEqual(limit(job.step_seconds({"fast": 1, "slow": 1}, 8, most_stages=1), alone), 1)

    def test_sequences_that_cannot_lose_the_rest(self):
        job = Job({"fast": times(1), "slow": times(1.5)}, 1, [1])
        # 2.4 : 1.6 would be even; 3 : 1 takes as long as 2 : 2.
        self.assertAlmostEqual(job.step_seconds({"fast": 1, "slow": 1}, 4, most_stages=1), 3)

    def test_a_device_may_be_left_out(self):
        job = Job({"fast": times(1), "slow": times(100)}, 1, [1])
        self.assertAlmostEqual(job.step_seconds({"fast": 1, "slow": 1}, 4), 4)

    def test_a_micro_batch_holds_as_many_sequences_as_are_allowed(self):
        job = Job({"a": times(1, [2, 4])}, 1, [2, 4])
        self.assertAlmostEqual(job.step_seconds({"a": 2}, 8, most_stages=1), 4)
        self.assertEqual(job.step_seconds({"a": 1}, 7), float("inf"))

    def test_a_pipeline_s_fill_is_what_the_later_stages_wait_for(self):
        stage = (1, 2, 0)
        # The first forward of the stage before and its last backward.
        self.assertAlmostEqual(pipeline_seconds([stage, stage], 4), 1 + 4 * 3 + 2)
        # What is put off is done while others have their gradients, but for the first stage's.
        self.assertAlmostEqual(pipeline_seconds([(1, 2, 1), (1, 2, 1)], 4), 1 + 4 * 3)

    def test_staggered_stages_wait_for_the_busiest_alone(self):
        job = Job({"fast": times(1), "slow": times(2)}, 3, [1], staggered=True)
        seconds, order, blocks, size = job.best_pipeline((("fast", 1), ("slow", 1)), 10)
        self.assertEqual((seconds, order, blocks, size), (20, ("fast", "slow"), [3, 2], 1))
        kinds = {"a": times(1), "b": times(1.7), "c": times(2.3)}
        for layers in range(3, 7):
            least = min(max(10 * sum(kinds[kind].stage(1, count - (s == 0) - (s == 2), s == 0, s == 2)[:2])
                            for s, (kind, count) in enumerate(zip(order, blocks)))
                        for order in itertools.permutations("abc") for blocks in cuts(layers + 2, 3))
            job = Job(kinds, layers, [1], staggered=True)
            self.assertAlmostEqual(job.route_seconds((("a", 1), ("b", 1), ("c", 1)), 10), least)

    def test_layers_are_cut_where_it_is_best(self):
        job = Job({"fast": times(1), "slow": times(2)}, 3, [1])
        # Two layers and one: 2 a micro-batch each, and a fill of the first stage's forward and backward.
        self.assertAlmostEqual(job.step_seconds({"fast": 1, "slow": 1}, 10, most_routes=1), 20 + 2)
        seconds, order, blocks, size = job.best_pipeline((("fast", 1), ("slow", 1)), 10)
        self.assertEqual((order, blocks, size), (("fast", "slow"), [3, 2], 1))

    def test_heads_are_whole(self):
        job = Job({"fast": times(1), "slow": times(2)}, 1, [1])
        self.assertAlmostEqual(job.shared_step_seconds(["fast", "slow"], 6, 3), 4)
        self.assertAlmostEqual(job.shared_step_seconds(["fast", "slow"], 6, 4), 4.5)

    def test_routes_of_any_kind_are_no_worse_than_those_of_one(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed", seed)
        source = random.Random(seed)
        for _ in range(10):
            job = Job({kind: times(source.uniform(1, 4), [1, 2], source.uniform(0, 1), source.uniform(0, 0.3)) for kind in "ab"},
                      source.randint(2, 4), [1, 2])
            counts = {"a": source.randint(1, 2), "b": source.randint(1, 2)}
            sequences = source.randint(2, 7)
            any_routes = job.step_seconds(counts, sequences)
            for more in ({"most_routes": 1}, {"most_stages": 1}, {"most_routes": 2, "most_stages": 2}):
                self.assertLessEqual(any_routes, job.step_seconds(counts, sequences, **more) + 1e-12)
            alone = [job.step_seconds({kind: n}, sequences) for kind, n in counts.items()]
            self.assertLessEqual(any_routes, min(alone) + 1e-12)


if __name__ == "__main__":
    unittest.main()
