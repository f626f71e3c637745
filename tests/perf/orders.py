#!/usr/bin/env python3
"""What orders of passes that the planner makes bring when they are run: uneven pipelines of emulated devices.

Starts a cluster (`medley up`) of one node with emulated devices of unlike speeds, which take the time of their profile and compute
nothing, and runs the same training job on some of them three times with real workers: the planner's best plan under 1F1B, its best
plan with an order of its own, and its best whose steps stand staggered (post-validation). Measured are the medians of step times that the coordinator itself reports. Prints `key value` lines.
"""
import argparse
import json
import os
import re
import sys

from training_cluster import Cluster, emulated_device

HIDDEN, HEADS, SEQUENCE, SIZE = 128, 4, 32, 2
# Of a layer and micro-batch, of a device of speed 1: long beside what messages and waking up take on this machine.
FORWARD_MS, BACKWARD_MS = 25, 50
ENOUGH, STORED = "16GiB", "18MiB"
# Name: how many times as long each device takes, their memory, layers, micro-batches, routes at most. Of "in_turn" no device has room
# for the whole model, and a plan in which the three slow ones take turns is about 2 % slower than the best; of "stored" none has room for what
# 1F1B keeps, and how fast they copy to host memory is known; "twenty" is planned by classes of devices.
PIPELINES = {
    "three": ([1, 1.3, 1.6], ENOUGH, 5, 8, 1),
    "four": ([1, 1.6, 0.8, 1.3], ENOUGH, 7, 10, 1),
    "twice_as_slow": ([2, 1, 1, 2], ENOUGH, 6, 10, 1),
    "six": ([1, 1.3, 0.8, 1.6, 1, 1.3], ENOUGH, 10, 12, 1),
    "in_turn": ([1.5, 3, 3, 3], "20MiB", 8, 12, 4),
    "stored": ([1, 1.3, 1, 1.6, 1, 1.3], STORED, 12, 16, 1),
    "twenty": ([1] * 12 + [1.6] * 8, ENOUGH, 10, 40, 5),
}

PROFILE = """kind: Times-%(name)s
memory_bytes: %(memory)s
matmul_f32_flops_per_second: 20e9
memory_bytes_per_second: 20e9
host_link_bytes_per_second: 5e9
op_overhead_seconds: 5e-6
layers:
  - {family: llama, hidden: %(hidden)d, feed_forward: %(columns)d, heads: %(heads)d, sequence: %(sequence)d, micro_batch: %(size)d,
     precision: f32, forward_ms: %(forward)g, backward_ms: %(backward)g}
"""


SECONDS = {"layer_forward_seconds": FORWARD_MS / 1e3, "layer_backward_seconds": BACKWARD_MS / 1e3}


def job(name, layers, micro_batches, steps, text, **more):
    return json.dumps({
        "name": name, "allow_emulated": True,
        # Whose head is not its embedding: of one that is, the gradients of both ends are summed before either is updated.
        "model": {"llama": {"layers": layers, "hidden": HIDDEN, "heads": HEADS, "feed_forward": 4 * HIDDEN, "vocabulary": 256}},
        "data": {"train": text, "format": "text"},
        "batch": {"sequences": SIZE * micro_batches, "sequence_length": SEQUENCE},
        "steps": steps, "optimizer": {"learning_rate": 1e-4, "clip_norm": 0}, "max_restarts": 0, **more})


def with_exact_times(measured, copies_known):
    """The cluster as it was measured, but layers take what their profiles say: a busy machine measures them longer."""
    lines, slowness, put_off = [], 1, 1
    for line in measured.split("\n"):
        if ("fetch_bytes_per_second" in line or "store_bytes_per_second" in line) and not copies_known:
            continue
        kind = re.search(r"device_kind:.*Times-([0-9.]+[0-9])", line)
        if kind:
            slowness = float(kind.group(1))
        time = re.search(r"(layer_\w+_seconds): ([0-9.e+-]+)", line)
        if time and time.group(1) in SECONDS:
            exact = slowness * SECONDS[time.group(1)]
            put_off = exact / float(time.group(2))  # of a backward, it comes last; its part for the weights stays that part
            line = line.replace(time.group(2), f"{exact:g}")
        elif time and time.group(1) == "layer_weight_gradient_seconds":
            line = line.replace(time.group(2), f"{put_off * float(time.group(2)):g}")
        elif time and time.group(1) == "layer_split_seconds":
            line = line.replace(time.group(2), "0")
        lines.append(line)
    return "\n".join(lines)


def devices_for(slownesses, memory, of_kind):
    """Each another one."""
    left = {kind: list(names) for kind, names in of_kind.items()}
    return [left[slowness, memory].pop(0) for slowness in slownesses]


def start(flags):
    """The cluster, and the names of its devices by how many times as long they take, and their memory."""
    os.makedirs(flags.directory, exist_ok=True)
    most = {}
    for slownesses, memory, *_ in PIPELINES.values():
        for slowness in slownesses:
            kind = slowness, memory
            most[kind] = max(most.get(kind, 0), slownesses.count(slowness))
    every = []
    for (slowness, memory), count in sorted(most.items()):
        path = os.path.join(flags.directory, f"times-{slowness:g}-{memory}.yaml")
        with open(path, "w") as file:
            file.write(PROFILE % {"name": f"{slowness:.1f}-{memory}", "memory": memory, "hidden": HIDDEN, "columns": 4 * HIDDEN,
                                  "heads": HEADS, "sequence": SEQUENCE, "size": SIZE, "forward": slowness * FORWARD_MS,
                                  "backward": slowness * BACKWARD_MS})
        every += [((slowness, memory), path)] * count
    cluster = Cluster(flags.binaries, flags.directory, {"node": [emulated_device(path) for _, path in every]})
    of_kind = {}
    for (kind, _), device in zip(every, cluster.devices):
        of_kind.setdefault(kind, []).append(device)
    return cluster, of_kind


def median(values):
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=10, help="of each job; the first two are not counted")
    parser.add_argument("--only", choices=PIPELINES, help="one pipeline")
    flags = parser.parse_args()
    if flags.only:
        for other in PIPELINES.keys() - {flags.only}:
            del PIPELINES[other]
    cluster, of_kind = start(flags)
    text = cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(60000)))
    named, listed = ["one_forward_one_backward"], ["one_forward_one_backward", "listed"]
    ways = {"named": {"schedules": named}, "listed": {"schedules": listed, "post_validation": False},
            "staggered": {"schedules": listed, "post_validation": True}}
    ratios = {way: [] for way in ways}
    gains, predicted_gains = {way: [] for way in ways}, {way: [] for way in ways}
    try:
        everything = job("measured", 6, 8, flags.steps, text, constraints={"micro_batch_sizes": [SIZE]})
        cluster.medley("plan", cluster.write("measured.yaml", everything))
        as_measured = cluster.medley("nodes", output="cluster")
        exact = {known: cluster.write(f"exact-{known}.cluster.yaml", with_exact_times(as_measured, known)) for known in (False, True)}
        for name, (slownesses, memory, layers, micro_batches, routes) in PIPELINES.items():
            constraints = {"devices": devices_for(slownesses, memory, of_kind), "micro_batch_sizes": [SIZE], "max_routes": routes}
            predicted, measured = {}, {}
            for which, way in ways.items():
                run = f"{name}-{which}"
                wanted = job(run, layers, micro_batches, flags.steps, text, constraints=dict(constraints, **way))
                report = cluster.medley("plan", "--cluster", exact[memory == STORED], cluster.write(f"{run}.wanted.yaml", wanted))
                if (which != "named") != (report["plan"]["schedule"] == "listed"):
                    sys.exit(f"{run}: {report['description']}; {report.get('orders')}")
                pinned = job(run, layers, micro_batches, flags.steps, text, plan=report["plan"])
                predicted[which] = report["predicted_step_seconds"]
                _, measured[which], _ = cluster.run(run, pinned)
                ratios[which].append(measured[which] / predicted[which])
                print(f"# {run}: predicted {predicted[which]:.4f} s, measured {measured[which]:.4f} s "
                      f"({ratios[which][-1] - 1:+.1%})  {report['description']}", flush=True)
            for which in ways:
                gains[which].append(measured["named"] / measured[which])
                predicted_gains[which].append(predicted["named"] / predicted[which])
    finally:
        cluster.stop()
    def worst(which):
        return max(ratios[which], key=lambda ratio: abs(ratio - 1))

    for which, suffix in (("listed", ""), ("staggered", "_staggered")):
        print(f"executed_over_predicted{suffix} {median(ratios[which]):.3f}")
        print(f"executed_over_predicted{suffix}_worst {worst(which):.3f}")
        print(f"executed_gain_over_1f1b{suffix} {median(gains[which]):.3f}")
        print(f"predicted_gain_over_1f1b{suffix} {median(predicted_gains[which]):.3f}")
    print(f"executed_over_predicted_1f1b {median(ratios['named']):.3f}")


if __name__ == "__main__":
    main()
