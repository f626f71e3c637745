#!/usr/bin/env python3
"""What sharing blocks among devices costs and brings: one core against two that share every layer, and other ways to use the two;
and what replicas that shard the optimizer's state send for it.

Starts a cluster (`medley up`) of one node with two cores of the best instruction set and one of the second best on the second core,
and runs the same training job under pinned plans. Then, and alone with --only-emulated, one of two emulated devices that share every
layer and exchange for about as long as they compute, with whole micro-batches and with two parts of each; and one of a model that fits two such
devices in no simpler way, for which the planner decides. Measured are the medians of step times that the coordinator itself reports.
Prints `key value` lines.
"""
import argparse
import json
import os
import sys

from training_cluster import Cluster, best_variants, cpu_device, emulated_device

LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH, VOCABULARY = 8, 512, 8, 256, 8, 256
BLOCKS = LAYERS + 2
COLUMNS = 4 * HIDDEN
LAYER_PARAMETERS = LAYERS * (12 * HIDDEN + 13) * HIDDEN
PARAMETERS = LAYER_PARAMETERS + (VOCABULARY + SEQUENCE + 2) * HIDDEN


def unit(devices, blocks, **more):
    return dict({"devices": devices, "blocks": [{"first": first, "end": end} for first, end in blocks]}, **more)


def shares(heads):
    """Of the model's heads, and of all else in proportion; heads: one number a device."""
    result = []
    for of_rank in heads:
        result.append({"key_value_heads": of_rank, "feed_forward": COLUMNS * of_rank // HEADS,
                       "vocabulary": VOCABULARY * of_rank // HEADS})
    return result


def plan(units, routes, **more):
    return dict({"units": units, "routes": [{"units": visited, "micro_batches": count, "micro_batch_sequences": size}
                                            for visited, count, size in routes]}, **more)


def job_yaml(name, steps, text, pinned, vocabulary=VOCABULARY, **more):
    """pinned: None leaves the plan to the planner."""
    return "\n".join([
        f"name: {name}", f"model: {{gpt2: {{layers: {LAYERS}, hidden: {HIDDEN}, heads: {HEADS}, vocabulary: {vocabulary}}}}}",
        f"data: {{train: {text}, format: text}}", f"batch: {{sequences: {BATCH}, sequence_length: {SEQUENCE}}}",
        f"steps: {steps}", "optimizer: {learning_rate: 1e-4}", "max_restarts: 0",
        *([] if pinned is None else ["plan: " + json.dumps(pinned)]), *(f"{key}: {json.dumps(value)}" for key, value in more.items())]) + "\n"


def kept_bytes(cluster, text, units):
    """What a device of `units` keeps of all micro-batches but one, from forward to backward, at most; as the worker allocates it."""
    peaks = []
    for schedule in ("one_forward_one_backward", "gpipe"):  # one micro-batch at a time; all of them
        pinned = plan(units, [([0], BATCH // 2, 2)], schedule=schedule)
        report = cluster.plan(f"kept_{schedule}", job_yaml(f"kept_{schedule}", 1, text, pinned))
        peaks.append(max(int(device["peak_memory_bytes"]) for device in report["devices"] if device.get("used")))
    return peaks[1] - peaks[0]


def bytes_over_minimum(exchanged, holders, gathered_again=0):
    """What a job of `holders` replicas sent of gradients and parameters, over the least with which each element's sum is known to
    the one that updates it and its new value to all, and of `gathered_again` elements a second time: one f32 less than there are
    holders for each, however unevenly they share."""
    sent = sum(entry["bytes_sent"] for lane in exchanged["lanes"] for entry in lane["traffic"] if entry["operation"] == "reduce")
    return sent / (exchanged["step"] * (holders - 1) * 4 * (2 * PARAMETERS + gathered_again))


def exchange_share(report, step_seconds):
    """Of a step that takes so long, under a plan of one unit: the part in which the device that computes most does not, but sums, gives
    and waits for what the ranks exchange within passes. It computes for as long as its share of the blocks was measured to take:
    exchanges are inside passes, whose times in a trace have both."""
    busy = max(float(device["busy_share"]) for device in report["devices"] if device.get("used"))
    return 1 - busy * report["predicted_step_seconds"] / step_seconds


TEXT = " ".join(f"{i} {i * i % 9973}" for i in range(60000))

# A product of a branch takes some milliseconds, and so do copies to the host and back of what is summed.
PROFILE = """kind: slow-to-reach
memory_bytes: 16GiB
matmul_f32_flops_per_second: 200e9
memory_bytes_per_second: 100e9
host_link_bytes_per_second: 0.7e9
op_overhead_seconds: 5e-6
"""


def emulated_cluster(flags, name, memory):
    directory = os.path.join(flags.directory, name)
    os.makedirs(directory, exist_ok=True)
    profile = os.path.join(directory, "profile.yaml")
    with open(profile, "w") as file:
        file.write(PROFILE.replace("16GiB", memory))
    return Cluster(flags.binaries, directory, {"node": [emulated_device(profile)] * 2})


def run_emulated(flags):
    cluster = emulated_cluster(flags, "emulated", "16GiB")
    text = cluster.write("text.txt", TEXT)
    measured = {}
    try:
        for parts in (1, 2):
            pinned = plan([unit(cluster.devices, [(0, BLOCKS)], exchange_parts=parts)], [([0], BATCH // 4, 4)])
            predicted, measured[parts], state = cluster.run(f"parts_{parts}", job_yaml(f"parts-{parts}", flags.steps, text, pinned,
                                                                                     allow_emulated=True))
            print(f"# emulated, {parts} parts: predicted {predicted:.3f} s, measured {measured[parts]:.3f} s "
                  f"({measured[parts] / predicted - 1:+.1%})  {state['plan']['description']}", flush=True)
            print(f"parts_{parts}_prediction_error {abs(predicted - measured[parts]) / measured[parts]:.3f}")
    finally:
        cluster.stop()
    print(f"parts_speedup_emulated {measured[1] / measured[2]:.3f}")


def run_chosen(flags):
    """The embedding is so large that no device has room for one end of a pipeline."""
    cluster = emulated_cluster(flags, "chosen", "300MiB")
    text = cluster.write("text.txt", TEXT)
    try:
        predicted, measured, state = cluster.run("chosen", job_yaml("chosen", flags.steps, text, None, vocabulary=16000, allow_emulated=True))
    finally:
        cluster.stop()
    print(f"# emulated, planned: predicted {predicted:.3f} s, measured {measured:.3f} s ({measured / predicted - 1:+.1%})  "
          f"{state['plan']['description']}", flush=True)
    print(f"chosen_parts_prediction_error {abs(predicted - measured) / measured:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=8, help="of each job; the first two are not counted")
    parser.add_argument("--only-emulated", action="store_true", help="nothing that computes")
    flags = parser.parse_args()
    run_emulated(flags)
    run_chosen(flags)
    if not flags.only_emulated:
        run_cores(flags)


def run_cores(flags):
    best, second = best_variants()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("needs two cores")
    devices = [cpu_device(best, cores[0]), cpu_device(best, cores[1]), cpu_device(second, cores[1])]
    cluster = Cluster(flags.binaries, flags.directory, {"node": devices})
    text = cluster.write("text.txt", TEXT)
    a, b, c = cluster.devices
    everything = [(0, BLOCKS)]
    half = BLOCKS // 2
    quarters = [(0, 3), (3, 5), (5, 7), (7, BLOCKS)]
    plans = {
        "alone": plan([unit([a], everything)], [([0], BATCH // 2, 2)]),
        "tensor_parallel": plan([unit([a, b], everything)], [([0], BATCH // 2, 2)]),
        "tensor_parallel_in_parts": plan([unit([a, b], everything, exchange_parts=2)], [([0], BATCH // 2, 2)]),
        "sequence_parallel": plan([unit([a, b], everything, sequence_parallel=True)], [([0], BATCH // 2, 2)]),
        "alone_again": plan([unit([a], everything)], [([0], BATCH // 2, 2)]),
        "tensor_parallel_uneven": plan([unit([a, c], everything, shares=shares([5, 3]))], [([0], BATCH // 2, 2)]),
        "alone_second": plan([unit([c], everything)], [([0], BATCH // 2, 2)]),
        "recompute": plan([unit([a], everything, recompute="layers")], [([0], BATCH // 2, 2)]),
        "recompute_all_but_attention": plan([unit([a], everything, recompute="all_but_attention")], [([0], BATCH // 2, 2)]),
        "two_ranges_a_device": plan([unit([a], [quarters[0], quarters[2]]), unit([b], [quarters[1], quarters[3]])],
                                    [([0, 1, 0, 1], BATCH, 1)]),
        "many_to_many": plan([unit([a], [(0, half)]), unit([b], [(0, half)]), unit([c], [(half, BLOCKS)])],
                             [([0, 2], BATCH // 4, 2), ([1, 2], BATCH // 2, 1)]),
        "replicas": plan([unit([a], everything), unit([c], everything)], [([0], BATCH // 4, 2), ([1], BATCH // 4, 2)]),
        "optimizer_sharded": plan([unit([a], everything, optimizer_weight=2), unit([c], everything)],
                                  [([0], BATCH // 4, 2), ([1], BATCH // 4, 2)], shards_optimizer=True),
        "layers_on_peers": plan([unit([a], everything, optimizer_weight=2, window_layers=2, layers_home="peers"),
                                 unit([c], everything, window_layers=2, layers_home="peers")],
                                [([0], BATCH // 4, 2), ([1], BATCH // 4, 2)], shards_optimizer=True, schedule="gpipe"),
        "gradients_on_peers": plan([unit([a], everything, optimizer_weight=2, window_layers=2, layers_home="gradients_on_peers"),
                                    unit([c], everything, window_layers=2, layers_home="gradients_on_peers")],
                                   [([0], BATCH // 4, 2), ([1], BATCH // 4, 2)], shards_optimizer=True, schedule="gpipe"),
        "unlike_sizes": plan([unit([a], everything), unit([c], everything)], [([0], 1, BATCH - 3), ([1], 3, 1)]),
    }
    measured, errors, exchanged, reports = {}, {}, {}, {}
    try:
        for name, pinned in plans.items():
            predicted, measured[name], state = cluster.run(name, job_yaml(name, flags.steps, text, pinned))
            errors[name] = abs(predicted - measured[name]) / measured[name]
            print(f"# {name}: predicted {predicted:.3f} s, measured {measured[name]:.3f} s ({measured[name] / predicted - 1:+.1%})  "
                  f"{state['plan']['description']}", flush=True)
            exchanged[name] = cluster.medley("links", "--job", state["id"])
            reports[name] = state["plan"]
        kept = {key: kept_bytes(cluster, text, [unit([a, b], everything, **more)])
                for key, more in (("all_rows", {}), ("own_rows", {"sequence_parallel": True}),
                                  ("all_rows_recompute", {"recompute": "layers"}),
                                  ("own_rows_recompute", {"sequence_parallel": True, "recompute": "layers"}))}
    finally:
        cluster.stop()
    alone = (measured["alone"] + measured["alone_again"]) / 2
    print(f"tp2_speedup {alone / measured['tensor_parallel']:.3f}")
    of_two = reports["tensor_parallel"]
    print(f"tp2_exchange_share {exchange_share(of_two, measured['tensor_parallel']):.3f}")
    print(f"tp2_exchange_share_predicted {exchange_share(of_two, of_two['predicted_step_seconds']):.3f}")
    both = 1 / alone + 1 / measured["alone_second"]
    print(f"tp2_uneven_efficiency {1 / measured['tensor_parallel_uneven'] / both:.3f}")
    print(f"recompute_slowdown {measured['recompute'] / alone:.3f}")
    print(f"recompute_all_but_attention_slowdown {measured['recompute_all_but_attention'] / alone:.3f}")
    print(f"parts_speedup {measured['tensor_parallel'] / measured['tensor_parallel_in_parts']:.3f}")
    print(f"sequence_parallel_slowdown {measured['sequence_parallel'] / measured['tensor_parallel']:.3f}")
    print(f"sequence_parallel_kept_bytes {kept['own_rows'] / kept['all_rows']:.3f}")
    print(f"sequence_parallel_recompute_kept_bytes {kept['own_rows_recompute'] / kept['all_rows_recompute']:.3f}")
    print(f"zero_bytes_over_minimum {bytes_over_minimum(exchanged['optimizer_sharded'], 2):.4f}")
    print(f"all_reduce_bytes_over_minimum {bytes_over_minimum(exchanged['replicas'], 2):.4f}")
    print(f"zero_slowdown {measured['optimizer_sharded'] / measured['replicas']:.3f}")
    print(f"zero2_bytes_over_minimum {bytes_over_minimum(exchanged['gradients_on_peers'], 2):.4f}")
    print(f"zero2_slowdown {measured['gradients_on_peers'] / measured['replicas']:.3f}")
    print(f"zero3_bytes_over_minimum {bytes_over_minimum(exchanged['layers_on_peers'], 2, LAYER_PARAMETERS):.4f}")
    print(f"zero3_slowdown {measured['layers_on_peers'] / measured['replicas']:.3f}")
    in_order = sorted(errors.values())
    print(f"prediction_error_median {in_order[len(in_order) // 2]:.3f}")
    print(f"prediction_error_worst {in_order[-1]:.3f}")


if __name__ == "__main__":
    main()
