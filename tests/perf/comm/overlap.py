#!/usr/bin/env python3
"""How much of the reduction of gradients is hidden behind backward passes, in a real job of two replicas on
two cores.

Of the instructions' measured times in a traced step. A reduction is under way from when both replicas have come
to it until both have its sum; it is hidden as long as either still runs backward, since the step could not be
shorter without it. overlap_share_with_waiting counts on each device alone, from when that device has come to the
reduction, so that a replica that waits for a slower one has nothing to hide that behind.
Several jobs, since each traces one step; the median counts.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
STEPS = 5  # the fourth is traced


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def intersection(a, b):
    return union((max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b if max(x[0], y[0]) < min(x[1], y[1]))


def measured(trace, process, name):
    return sorted((event["ts"] * 1e-6, (event["ts"] + event["dur"]) * 1e-6) for event in trace["traceEvents"]
                  if event["pid"] == process and event.get("cat") == "measured" and event["name"].startswith(name))


def hidden_and_whole(trace):
    """Seconds of reductions, from when both replicas have come to them, of which before the last backward ended."""
    processes = sorted({event["pid"] for event in trace["traceEvents"]})
    # Both replicas hold everything, so that both sum the same slices in the same order.
    by_device = [times for times in (measured(trace, process, "reduce gradients") for process in processes) if times]
    joint = union((max(start for start, _ in same), max(end for _, end in same)) for same in zip(*by_device))
    last = max(end for process in processes for _, end in measured(trace, process, "backward"))
    return length([(start, min(end, last)) for start, end in joint if start < last]), length(joint)


def hidden_and_whole_with_waiting(trace):
    """Seconds of reductions behind backward passes of the same device and of all reductions, over all devices."""
    hidden = whole = 0.0
    for process in {event["pid"] for event in trace["traceEvents"]}:
        reductions = union(measured(trace, process, "reduce gradients"))
        whole += length(reductions)
        hidden += length(intersection(reductions, union(measured(trace, process, "backward"))))
    return hidden, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True, help="folder with the four programs")
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--micro-batch", type=int, default=2)
    flags = parser.parse_args()
    os.environ["MEDLEY_BINARIES"] = flags.binaries
    import cluster
    blocks = flags.layers + 2
    micro_batches = flags.sequences // flags.micro_batch
    plan = {"micro_batch_sequences": flags.micro_batch,
            "units": [cluster.unit(name + "/cpu0", 0, blocks) for name in "ab"],
            "routes": [cluster.route([0], micro_batches // 2), cluster.route([1], micro_batches - micro_batches // 2)]}
    variant = cluster.cpu_variants()[0]
    with tempfile.TemporaryDirectory(prefix="medley-overlap-") as directory:
        data = cluster.write_file(os.path.join(directory, "train.txt"), cluster.training_text())
        with cluster.Cluster(directory, lease_seconds=6) as running:
            running.start({name: [cluster.cpu_device(variant, cluster.core(index), memory="6GiB")]
                           for index, name in enumerate("ab")})
            shares, shares_with_waiting = [], []
            for number in range(flags.jobs):
                job = running.submit({
                    "name": "overlap-%d" % number,
                    "model": {"gpt2": {"layers": flags.layers, "hidden": flags.hidden, "heads": 8}},
                    "data": {"train": data, "format": "text"},
                    "batch": {"sequences": flags.sequences, "sequence_length": flags.sequence},
                    "steps": STEPS, "precision": "f32", "optimizer": {"learning_rate": 1e-4}, "max_restarts": 0, "plan": plan})
                state = running.wait_for_state(job, "done", 600)
                running.cli("trace", job, "--to", running.path("trace.json"))
                with open(running.path("trace.json")) as file:
                    trace = json.load(file)
                hidden, whole = hidden_and_whole(trace)
                waiting_hidden, waiting = hidden_and_whole_with_waiting(trace)
                shares.append(hidden / whole)
                shares_with_waiting.append(waiting_hidden / waiting)
                print("# job %d: step %.3f s, reductions %.3f s, of which %.3f s before the last backward ended; a device's "
                      "with waiting %.3f s" % (number, state["measured_step_seconds"], whole, hidden, waiting / 2), flush=True)
    print("overlap_share %.3f" % statistics.median(shares))
    print("overlap_share_with_waiting %.3f" % statistics.median(shares_with_waiting))


if __name__ == "__main__":
    main()
