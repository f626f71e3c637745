#!/usr/bin/env python3
"""Two unlike devices, one job: what the mixed cluster does of the sum of its parts, and whether it was foretold.

Starts a cluster (`medley up`) of one core each of the two best instruction sets of this processor, and runs the same training job
under pinned plans: each device alone, the planner's choice, the best equal split, and others. Measured are the medians of
step times that the coordinator itself reports. Prints `key value` lines.

With --with-load a process of the benchmark's own computes half of the time on the first device's core, while devices are measured
and while the planner's choice trains, and nothing else is run.
"""
import argparse
import json
import os
import subprocess
import sys

from training_cluster import Cluster, best_variants, cpu_device

LAYERS, HIDDEN, SEQUENCE, BATCH = 8, 512, 256, 16  # 25.4 million parameters
BLOCKS = LAYERS + 2


def job_yaml(name, steps, text, precision, plan=None):
    lines = [f"name: {name}",
             f"model: {{gpt2: {{layers: {LAYERS}, hidden: {HIDDEN}, heads: 8}}}}",
             f"data: {{train: {text}, format: text}}",
             f"batch: {{sequences: {BATCH}, sequence_length: {SEQUENCE}}}",
             f"steps: {steps}", f"precision: {precision}", "optimizer: {learning_rate: 1e-4}",
             "max_restarts: 0", "constraints: {micro_batch_sizes: [1, 2, 4]}"]
    if plan:
        lines.append("plan: " + json.dumps(plan))
    return "\n".join(lines) + "\n"


def plan_of(micro_batch, routes, schedule="one_forward_one_backward"):
    """routes: [(micro-batches, [(device, blocks), ...]), ...]"""
    plan = {"micro_batch_sequences": micro_batch, "schedule": schedule, "units": [], "routes": []}
    for micro_batches, stages in routes:
        units, first = [], 0
        for device, blocks in stages:
            units.append(len(plan["units"]))
            plan["units"].append({"devices": [device], "blocks": [{"first": first, "end": first + blocks}]})
            first += blocks
        assert first == BLOCKS, stages
        plan["routes"].append({"units": units, "micro_batches": micro_batches})
    return plan


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    for rank, index in enumerate(order):
        result[index] = float(rank)
    return result


def rank_correlation(a, b):
    """Spearman's."""
    ra, rb = ranks(a), ranks(b)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ra, rb)) / (n * (n * n - 1))


class Load:
    """Computes on a core for the first half of every tenth of a second. Ends by itself, and with the benchmark."""
    SCRIPT = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.sched_setaffinity(0, [int(sys.argv[1])])
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    if time.monotonic() % 0.1 >= 0.05:
        time.sleep(0.1 - time.monotonic() % 0.1)
"""

    def __init__(self, core, seconds):
        self.process = subprocess.Popen([sys.executable, "-c", self.SCRIPT, str(core), str(seconds)])

    def stop(self):
        alive = self.process.poll() is None
        self.process.kill()
        self.process.wait()
        if not alive:
            sys.exit("the load ended before the benchmark")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=8, help="of each job; the first two are not counted")
    parser.add_argument("--with-load", action="store_true", help="the planner's choice alone, beside a load")
    flags = parser.parse_args()
    variants = best_variants()
    precision = "bf16" if "amx" in variants else "f32"
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("needs two cores")
    load = Load(cores[0], 1200) if flags.with_load else None
    cluster = Cluster(flags.binaries, flags.directory,
                      {variant: [cpu_device(variant, core)] for variant, core in zip(variants, cores)})
    text = cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(60000)))
    a, b = cluster.devices
    try:
        def run(name, plan=None, steps=flags.steps):
            predicted, measured, state = cluster.run(name, job_yaml(name, steps, text, precision, plan))
            print(f"# {name}: predicted {predicted:.3f} s, measured {measured:.3f} s ({measured / predicted - 1:+.1%})  "
                  f"{state['plan']['description']}", flush=True)
            return predicted, measured, state

        if flags.with_load:
            predicted, measured, state = run("chosen", steps=2 * flags.steps)
            for use in state["plan"].get("profiles", []):
                print(f"# {use['device_kind']}: spread {use.get('spread', 0):.3f} {' '.join(use.get('doubts', []))}")
            print(f"prediction_error_with_load {abs(predicted - measured) / measured:.3f}")
            return
        results = {}
        # Alone, mixed, alone again: the machine's speed drifts, and the ratio must not.
        results["alone_a"] = run("alone_a", plan_of(2, [(BATCH // 2, [(a, BLOCKS)])]))
        results["alone_b"] = run("alone_b", plan_of(2, [(BATCH // 2, [(b, BLOCKS)])]))
        results["chosen"] = run("chosen")
        again_a = run("alone_a_again", plan_of(2, [(BATCH // 2, [(a, BLOCKS)])]))
        again_b = run("alone_b_again", plan_of(2, [(BATCH // 2, [(b, BLOCKS)])]))
        half = BLOCKS // 2
        results["equal_pipeline"] = run("equal_pipeline", plan_of(1, [(BATCH, [(a, half), (b, BLOCKS - half)])]))
        results["equal_data_parallel"] = run("equal_data_parallel",
                                             plan_of(2, [(BATCH // 4, [(a, BLOCKS)]), (BATCH // 4, [(b, BLOCKS)])]))
        results["pipeline_7_3"] = run("pipeline_7_3", plan_of(2, [(BATCH // 2, [(a, 7), (b, 3)])]))
        results["pipeline_gpipe"] = run("pipeline_gpipe", plan_of(4, [(BATCH // 4, [(a, 6), (b, 4)])], "gpipe"))
        results["pipeline_reversed"] = run("pipeline_reversed", plan_of(2, [(BATCH // 2, [(b, 7), (a, 3)])]))
        results["data_parallel_uneven"] = run("data_parallel_uneven", plan_of(1, [(13, [(a, BLOCKS)]), (3, [(b, BLOCKS)])]))
        alone = [(results["alone_a"][1] + again_a[1]) / 2, (results["alone_b"][1] + again_b[1]) / 2]
        predicted, measured, _ = results["chosen"]
        tokens = BATCH * SEQUENCE
        equal = min(results["equal_pipeline"][1], results["equal_data_parallel"][1])
        print(f"devices {a} {b}")
        print(f"precision {precision}")
        print(f"tokens_per_second_a {tokens / alone[0]:.1f}")
        print(f"tokens_per_second_b {tokens / alone[1]:.1f}")
        print(f"tokens_per_second_mixed {tokens / measured:.1f}")
        print(f"heterogeneity_efficiency {(1 / measured) / (1 / alone[0] + 1 / alone[1]):.3f}")
        print(f"speedup_over_equal_split {equal / measured:.3f}")
        print(f"prediction_error {abs(predicted - measured) / measured:.3f}")
        errors = sorted(abs(p - m) / m for p, m, _ in results.values())
        print(f"prediction_error_median {errors[len(errors) // 2]:.3f}")
        print(f"prediction_error_worst {errors[-1]:.3f}")
        print(f"plans {len(results)}")
        print(f"prediction_rank_correlation {rank_correlation([p for p, _, _ in results.values()], [m for _, m, _ in results.values()]):.3f}")
    finally:
        cluster.stop()
        if load is not None:
            load.stop()


if __name__ == "__main__":
    main()
