#!/usr/bin/env python3
"""What orders of passes that the planner makes bring when they are run: uneven pipelines of emulated devices.

Starts a cluster (`medley up`) of one node with emulated devices of unlike speeds, which take the time of their profile and compute
nothing, and runs the same training job on some of them twice with real workers: the planner's best plan under 1F1B, and its best
plan with an order of its own. Measured are the medians of step times that the coordinator itself reports. Prints `key value` lines.
"""
import argparse
import json
import os

from training_cluster import Cluster, emulated_device

HIDDEN, HEADS, SEQUENCE, SIZE = 32, 4, 32, 2
# Of a layer and micro-batch, of a device of speed 1: long beside what messages and waking up take on this machine.
FORWARD_MS, BACKWARD_MS = 12, 24
# Name: how many times as long each device takes, layers, micro-batches.
PIPELINES = {
    "three": ([1, 1.3, 1.6], 5, 9),
    "four": ([1, 1.6, 0.8, 1.3], 7, 12),
    "twice_as_slow": ([2, 1, 1, 2], 6, 12),
    "six": ([1, 1.3, 0.8, 1.6, 1, 1.3], 10, 14),
}

PROFILE = """kind: Times-%(name)s
memory_bytes: 16GiB
matmul_f32_flops_per_second: 20e9
memory_bytes_per_second: 20e9
host_link_bytes_per_second: 5e9
op_overhead_seconds: 5e-6
layers:
  - {hidden: %(hidden)d, feed_forward: %(columns)d, heads: %(heads)d, sequence: %(sequence)d, micro_batch: %(size)d,
     precision: f32, forward_ms: %(forward)g, backward_ms: %(backward)g}
"""


def job(name, devices, layers, micro_batches, schedules, steps, text):
    return json.dumps({
        "name": name, "allow_emulated": True,
        "model": {"gpt2": {"layers": layers, "hidden": HIDDEN, "heads": HEADS, "vocabulary": 256}},
        "data": {"train": text, "format": "text"},
        "batch": {"sequences": SIZE * micro_batches, "sequence_length": SEQUENCE},
        "steps": steps, "optimizer": {"learning_rate": 1e-4}, "max_restarts": 0,
        "constraints": {"devices": devices, "micro_batch_sizes": [SIZE], "max_routes": 1, "schedules": schedules}})


def devices_for(slownesses, of_slowness):
    """Each another one."""
    left = {slowness: list(names) for slowness, names in of_slowness.items()}
    return [left[slowness].pop(0) for slowness in slownesses]


def median(values):
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=10, help="of each job; the first two are not counted")
    flags = parser.parse_args()
    os.makedirs(flags.directory, exist_ok=True)
    kinds = sorted({slowness for slownesses, _, _ in PIPELINES.values() for slowness in slownesses})
    all_devices = []
    for kind in kinds:
        path = os.path.join(flags.directory, f"times-{kind:g}.yaml")
        with open(path, "w") as file:
            file.write(PROFILE % {"name": f"{kind:g}", "hidden": HIDDEN, "columns": 4 * HIDDEN, "heads": HEADS, "sequence": SEQUENCE,
                                  "size": SIZE, "forward": kind * FORWARD_MS, "backward": kind * BACKWARD_MS})
        all_devices += [(kind, path)] * max(slownesses.count(kind) for slownesses, _, _ in PIPELINES.values())
    cluster = Cluster(flags.binaries, flags.directory, {"node": [emulated_device(path) for _, path in all_devices]})
    of_slowness = {kind: [] for kind in kinds}
    for (kind, _), device in zip(all_devices, cluster.devices):
        of_slowness[kind].append(device)
    text = cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(60000)))
    over_predicted, over_predicted_1f1b, gains, predicted_gains = [], [], [], []
    try:
        for name, (slownesses, layers, micro_batches) in PIPELINES.items():
            devices = devices_for(slownesses, of_slowness)
            predicted, measured = {}, {}
            for schedules in (["one_forward_one_backward"], ["one_forward_one_backward", "listed"]):
                run, wanted = f"{name}-{schedules[-1].replace('_', '-')}", schedules[-1]
                predicted[wanted], measured[wanted], state = cluster.run(
                    run, job(run, devices, layers, micro_batches, schedules, flags.steps, text))
                print(f"# {run}: predicted {predicted[wanted]:.4f} s, measured {measured[wanted]:.4f} s "
                      f"({measured[wanted] / predicted[wanted] - 1:+.1%})  {state['plan']['description']}", flush=True)
                if wanted == "listed" and "listed" not in state["plan"]["description"]:
                    raise SystemExit(f"{run}: no order was chosen: {state['plan'].get('orders')}")
            over_predicted.append(measured["listed"] / predicted["listed"])
            over_predicted_1f1b.append(measured["one_forward_one_backward"] / predicted["one_forward_one_backward"])
            gains.append(measured["one_forward_one_backward"] / measured["listed"])
            predicted_gains.append(predicted["one_forward_one_backward"] / predicted["listed"])
    finally:
        cluster.stop()
    print(f"executed_over_predicted {median(over_predicted):.3f}")
    print(f"executed_over_predicted_worst {max(over_predicted, key=lambda share: abs(share - 1)):.3f}")
    print(f"executed_over_predicted_1f1b {median(over_predicted_1f1b):.3f}")
    print(f"executed_gain_over_1f1b {median(gains):.3f}")
    print(f"predicted_gain_over_1f1b {median(predicted_gains):.3f}")


if __name__ == "__main__":
    main()
