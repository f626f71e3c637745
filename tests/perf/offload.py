#!/usr/bin/env python3
"""What it costs to train a model of four times what a device holds, with its layers in host memory and two of them at a time on the
device, against a device as fast that holds the whole model.

Starts a cluster (`medley up`) of one node with emulated devices, which take the time of their profile and compute nothing, and with
devices of one processor core, and runs the same training jobs on them under pinned plans. Measured are the medians of step times
that the coordinator itself reports. Prints `key value` lines; behind each slowdown the least that copies allow, by their measured
rates.
"""
import argparse
import json
import os
import sys

from training_cluster import Cluster, cpu_device, cpu_variants, emulated_device

HEADS, VOCABULARY, WINDOWS = 8, 256, 2
# Of a layer and micro-batch of the emulated devices. With the first link they are like a GPU that copies 25e9 bytes a second to
# and from its host, but a tenth as fast in all, so that what this machine itself does for an emulated copy is short beside it.
FORWARD_MS, BACKWARD_MS = 4, 8
LINKS = {"Link-fast": 2.5e9, "Link-slow": 0.25e9}  # bytes a second, each way

PROFILE = """kind: %(kind)s
memory_bytes: 16GiB
matmul_f32_flops_per_second: 1e12
memory_bytes_per_second: 150e9
host_link_bytes_per_second: %(link)g
op_overhead_seconds: 5e-6
layers:
  - {hidden: %(hidden)d, feed_forward: %(columns)d, heads: %(heads)d, sequence: %(sequence)d, micro_batch: 1, precision: f32,
     forward_ms: %(forward)g, backward_ms: %(backward)g}
"""


class Workload:
    """A model, its micro-batches of one sequence, and the memory of a device that does not hold it."""

    def __init__(self, layers, hidden, sequence, micro_batches, memory_mib):
        self.layers, self.hidden, self.sequence, self.micro_batches = layers, hidden, sequence, micro_batches
        self.layer_parameters = (12 * hidden + 13) * hidden
        self.memory = f"{memory_mib}MiB"
        # Parameters, gradients and two moments, of layers alone.
        self.times_what_fits = 16 * layers * self.layer_parameters / (memory_mib << 20)
        assert self.times_what_fits >= 4

    def job(self, name, steps, text, device, windows, schedule, emulated):
        unit = {"devices": [device], "blocks": [{"first": 0, "end": self.layers + 2}], "recompute": "layers"}
        if windows:
            unit["window_layers"] = windows
        return json.dumps({
            "name": name, "allow_emulated": emulated,
            "model": {"gpt2": {"layers": self.layers, "hidden": self.hidden, "heads": HEADS, "vocabulary": VOCABULARY}},
            "data": {"train": text, "format": "text"},
            "batch": {"sequences": self.micro_batches, "sequence_length": self.sequence},
            "steps": steps, "optimizer": {"learning_rate": 1e-4}, "max_restarts": 0,
            "plan": {"micro_batch_sequences": 1, "schedule": schedule, "units": [unit],
                     "routes": [{"units": [0], "micro_batches": self.micro_batches}]}})

    def copied(self, schedule):
        """Bytes of a step: fetched for the passes, fetched for the updates, stored by the passes, stored by the updates. Under
        gpipe 24 fetched and 16 stored a parameter, less what is still in the windows; runtime/ir/program/DESIGN.md."""
        turns = 1 if schedule == "gpipe" else self.micro_batches  # how often the layers are gone through
        some = self.layers - WINDOWS                              # the others are there already, or still there
        passes_parameters = self.layers + turns * some + (turns - 1) * some
        passes_gradients = (turns - 1) * self.layers              # the first begins with zeros
        updates = some + some + 2 * self.layers                   # parameters, gradients, moments
        stored = (turns - 1) * self.layers + some
        return [4 * self.layer_parameters * of_layers
                for of_layers in (passes_parameters + passes_gradients, updates, stored, 3 * self.layers)]

    def least_seconds(self, schedule, held_seconds, profile):
        """Of a step that copies both ways beside computing. Updates wait for the norm of all gradients."""
        fetch_rate, store_rate = float(profile["fetch_bytes_per_second"]), float(profile["store_bytes_per_second"])
        fetched_before, fetched_after, stored_before, stored_after = self.copied(schedule)
        # Moments of the first layers may come before the norm is known.
        ahead = 8 * self.layer_parameters * WINDOWS
        updates = min(held_seconds, float(profile["update_seconds_per_parameter"]) * self.layers * self.layer_parameters)
        return max((fetched_before + fetched_after) / fetch_rate, (stored_before + stored_after) / store_rate,
                   max(held_seconds - updates, fetched_before / fetch_rate) +
                   max(updates, (fetched_after - ahead) / fetch_rate, stored_after / store_rate))

    def seconds_without_overlap(self, schedule, held_seconds, profile):
        """Where what computes also copies, as a processor's core does."""
        fetched_before, fetched_after, stored_before, stored_after = self.copied(schedule)
        return (held_seconds + (fetched_before + fetched_after) / float(profile["fetch_bytes_per_second"]) +
                (stored_before + stored_after) / float(profile["store_bytes_per_second"]))


EMULATED = Workload(layers=16, hidden=512, sequence=32, micro_batches=8, memory_mib=192)
CPU = Workload(layers=18, hidden=512, sequence=64, micro_batches=4, memory_mib=192)


def profile_file(directory, kind):
    path = os.path.join(directory, f"{kind}.yaml")
    with open(path, "w") as file:
        file.write(PROFILE % {"kind": kind, "link": LINKS[kind], "hidden": EMULATED.hidden, "columns": 4 * EMULATED.hidden,
                              "heads": HEADS, "sequence": EMULATED.sequence, "forward": FORWARD_MS, "backward": BACKWARD_MS})
    return path


class Runs:
    def __init__(self, cluster, steps):
        self.cluster, self.steps = cluster, steps
        self.text = cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(60000)))
        self.errors = []

    def run(self, name, workload, device, windows=0, schedule="one_forward_one_backward", held_seconds=None):
        """Measured seconds of a step; given those of a device that holds all, also the least that copies allow, and what they
        take if nothing goes on beside them."""
        emulated = "emulated" in device
        predicted, measured, state = self.cluster.run(
            name, workload.job(name, self.steps, self.text, device, windows, schedule, emulated))
        self.errors.append(abs(predicted - measured) / measured)
        note = f"# {name}: predicted {predicted:.3f} s, measured {measured:.3f} s ({measured / predicted - 1:+.1%})"
        least = without_overlap = None
        if windows:
            profile = self.profile_of(device)
            least = workload.least_seconds(schedule, held_seconds, profile)
            without_overlap = workload.seconds_without_overlap(schedule, held_seconds, profile)
            bytes_ = workload.copied(schedule)
            note += (f", at least {least:.3f} s: {sum(bytes_[:2]) / 1e9:.2f} GB fetched at "
                     f"{float(profile['fetch_bytes_per_second']) / 1e9:.2f} GB/s, {sum(bytes_[2:]) / 1e9:.2f} GB stored at "
                     f"{float(profile['store_bytes_per_second']) / 1e9:.2f} GB/s; {workload.times_what_fits:.1f} times its memory")
        print(f"{note}  {state['plan']['description']}", flush=True)
        return measured, least, without_overlap

    def profile_of(self, device):
        answer = self.cluster.medley("nodes")
        node, name = device.split("/")
        kind = next(of["kind"] for described in answer["nodes"] if described["name"] == node
                    for of in described["devices"] if of["name"] == name)
        # The last that copies were measured for, as the planner takes them.
        return [profile for profile in answer["profiles"]
                if profile["device_kind"] == kind and float(profile.get("fetch_bytes_per_second", 0)) > 0][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=8, help="of each job; the first two are not counted")
    flags = parser.parse_args()
    os.makedirs(flags.directory, exist_ok=True)
    fast, slow = (emulated_device(profile_file(flags.directory, kind)) for kind in LINKS)
    core = cpu_device(cpu_variants()[0], sorted(os.sched_getaffinity(0))[0])
    devices = [fast, dict(fast, memory_bytes=EMULATED.memory), dict(slow, memory_bytes=EMULATED.memory),
               core, dict(core, memory_bytes=CPU.memory)]
    cluster = Cluster(flags.binaries, flags.directory, {"node": devices})
    emulated_large, emulated_small, emulated_slow, cpu_large, cpu_small = cluster.devices
    runs = Runs(cluster, flags.steps)
    slowdowns = {}
    try:
        held, _, _ = runs.run("emulated-held", EMULATED, emulated_large)
        for key, device, schedule in (("", emulated_small, "gpipe"), ("_1f1b", emulated_small, "one_forward_one_backward"),
                                      ("_slow_link", emulated_slow, "gpipe")):
            name = "emulated" + (key or "_gpipe").replace("_", "-")
            seconds, least, _ = runs.run(name, EMULATED, device, WINDOWS, schedule, held)
            slowdowns[key] = seconds / held, least / held
        before, _, _ = runs.run("cpu-held", CPU, cpu_large)
        of_cpu = {key: runs.run("cpu" + (key or "_gpipe").replace("_", "-"), CPU, cpu_small, WINDOWS, schedule, before)
                  for key, schedule in (("", "gpipe"), ("_1f1b", "one_forward_one_backward"))}
        again, _, _ = runs.run("cpu-held-again", CPU, cpu_large)  # the machine's speed drifts
        for key, (seconds, least, _) in of_cpu.items():
            slowdowns["_cpu" + key] = seconds / ((before + again) / 2), least / before
    finally:
        cluster.stop()
    for key, (slowdown, bound) in slowdowns.items():
        print(f"offload_slowdown{key} {slowdown:.3f}")
        print(f"offload_slowdown{key}_bound {bound:.3f}")
    for key, (_, _, seconds) in of_cpu.items():
        print(f"offload_slowdown_cpu{key}_without_overlap {seconds / before:.3f}")
    print(f"offload_prediction_error_worst {max(runs.errors):.3f}")


if __name__ == "__main__":
    main()
