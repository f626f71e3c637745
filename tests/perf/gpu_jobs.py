#!/usr/bin/env python3
"""Training jobs on an NVIDIA GPU and on processor cores beside it: whether they all learn the same, and whether their steps take
what was predicted.

Starts a cluster (`medley up`) of the GPU and cores of the processor on this machine, then one of the GPU and the same GPU once more with
little memory, whose devices are in each other's way as no two of a user are. One small job runs on the cores alone, then on the GPU and on
both under plans of every kind; the losses of its steps are held against those of the cores. Larger jobs run on the GPU as the planner plans
them. Prints `key value` lines: loss_apart_NAME, the largest relative difference of a step's loss; step_seconds_NAME with
prediction_error_NAME. Exits with 0 and a notice where there is no GPU.
"""
import argparse
import json
import os
import re
import subprocess
import sys

from training_cluster import Cluster, cpu_variants

LAYERS = 6
BLOCKS = LAYERS + 2
EVERYTHING = [{"first": 0, "end": BLOCKS}]
SMALL = {
    "gpt2": {"layers": LAYERS, "hidden": 256, "heads": 8, "feed_forward": 1024, "vocabulary": 512},
    "llama": {"layers": LAYERS, "hidden": 256, "heads": 8, "key_value_heads": 4, "feed_forward": 704, "vocabulary": 512},
}
BATCH, SEQUENCE = 8, 128
# What steps may differ in, relative: f32 on two kinds of devices, and what bf16 and tf32 round.
MOST_APART = {"f32": 1e-5, "bf16": 2e-2}

LARGE = {  # model, sequence, sequences in a batch, precision, whether on the GPU with little memory
    "gpt2_124m": ({"gpt2": {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257}}, 1024, 16, "bf16", False),
    "gpt2_124m_f32": ({"gpt2": {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257}}, 1024, 16, "f32", False),
    "gpt2_774m": ({"gpt2": {"layers": 36, "hidden": 1280, "heads": 20, "vocabulary": 50257}}, 1024, 16, "bf16", False),
    "gpt2_774m_little_memory": ({"gpt2": {"layers": 36, "hidden": 1280, "heads": 20, "vocabulary": 50257}}, 1024, 16, "bf16", True),
}


def unit(devices, first=0, end=BLOCKS, **more):
    return dict({"devices": devices, "blocks": [{"first": first, "end": end}]}, **more)


def plan(units, routes, **more):
    return dict({"units": units, "routes": [{"units": visited, "micro_batches": count, "micro_batch_sequences": size}
                                            for visited, count, size in routes]}, **more)


def plans(family, backend):
    """Of a cluster's devices, the first cluster's and the second's, by name."""
    gpu, cores, small = f"gpu/{backend}0", "host/cpu0", f"little/{backend}0"
    half, columns = BLOCKS // 2, SMALL[family]["feed_forward"]
    parts = [{"key_value_heads": heads, "feed_forward": part, "vocabulary": vocabulary}
             for heads, part, vocabulary in ((3, columns - 176, 400), (1, 176, 112))]
    if family == "gpt2":
        parts = [dict(part, key_value_heads=2 * part["key_value_heads"]) for part in parts]
    return {
        "cores": plan([unit([cores])], [([0], 4, 2)]),
        "gpu": plan([unit([gpu])], [([0], 4, 2)]),
        "replicas": plan([unit([gpu]), unit([cores])], [([0], 3, 2), ([1], 2, 1)]),
        "pipeline": plan([unit([gpu], 0, half), unit([cores], half)], [([0, 1], 4, 2)]),
        "pipeline_reversed": plan([unit([cores], 0, half), unit([gpu], half)], [([0, 1], 4, 2)], schedule="zero_bubble_h1"),
        "shared": plan([unit([gpu, cores], shares=parts)], [([0], 4, 2)]),
        "sequence_parallel": plan([unit([gpu, cores], shares=parts, sequence_parallel=True)], [([0], 4, 2)]),
        "sharded": plan([unit([gpu]), unit([cores])], [([0], 3, 2), ([1], 2, 1)], shards_optimizer=True),
        "recomputed": plan([unit([gpu], recompute="layers")], [([0], 4, 2)]),
    }, {
        "one_gpu_twice": plan([unit([gpu], 0, half), unit([small], half)], [([0, 1], 4, 2)]),
        "one_gpu_shared": plan([unit([gpu, small])], [([0], 4, 2)]),
        "offloaded": plan([unit([small], window_layers=2, activations_home="host")], [([0], 4, 2)], schedule="gpipe"),
    }


class Jobs:
    def __init__(self, backend, steps, keep):
        self.cluster, self.backend, self.steps, self.keep = None, backend, steps, keep
        self.truth = {}  # losses on the cores, by family and precision
        self.failed = []

    def use(self, cluster):
        self.cluster = cluster
        self.text = cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(400000)))

    def run(self, name, model, batch, sequence, precision, **more):
        """The job's state at its end and its losses; nothing: it failed, which is said."""
        spec = {"name": name.replace("_", "-"), "model": model, "data": {"train": self.text, "format": "text"},
                "batch": {"sequences": batch, "sequence_length": sequence}, "steps": self.steps, "precision": precision,
                "optimizer": {"learning_rate": 1e-3}, "max_restarts": 0, **more}
        try:
            predicted, measured, state = self.cluster.run(name, json.dumps(spec))
            losses = [step["loss"] for step in self.cluster.medley("steps", state["id"])["steps"]]
            if self.keep:
                self.cluster.medley("trace", state["id"], "--to", os.path.join(self.keep, f"{name}.trace.json"), output="text")
        except (SystemExit, subprocess.CalledProcessError) as error:
            print(f"# {name} FAILED: {error}", flush=True)
            self.failed.append(name)
            return None
        print(f"# {name}: predicted {predicted:.5f} s, measured {measured:.5f} s ({measured / predicted - 1:+.1%}), losses "
              f"{losses[0]:.6f} to {losses[-1]:.6f}  {state['plan']['description']}", flush=True)
        return predicted, measured, losses

    def small(self, family, number, only):
        """Under the plans of cluster `number`."""
        model = {family: SMALL[family]}
        for precision in ("f32", "bf16"):
            kind = f"{family}_{precision}"
            of_clusters = plans(family, self.backend)
            if not any(re.search(only, f"{kind}_{name}") for of_cluster in of_clusters for name in of_cluster):
                continue
            for name, pinned in of_clusters[number].items():
                is_truth = name == "cores"
                name = f"{kind}_{name}"
                if not is_truth and not re.search(only, name):
                    continue
                result = self.run(name, model, BATCH, SEQUENCE, precision, plan=pinned)
                if is_truth:
                    self.truth[kind] = result and result[2]
                truth = self.truth.get(kind)
                if not result or not truth:
                    continue
                apart = max(abs(a - b) / abs(b) for a, b in zip(result[2], truth))
                print(f"loss_apart_{name} {apart:.2e}", flush=True)
                if not apart <= MOST_APART[precision]:
                    self.failed.append(name)

    def large(self, number, only):
        for name, (model, sequence, batch, precision, little) in LARGE.items():
            if number != int(little) or not re.search(only, name):
                continue
            device = f"{'little' if little else 'gpu'}/{self.backend}0"
            result = self.run(name, model, batch, sequence, precision, constraints={"devices": [device]})
            if result:
                predicted, measured, _ = result
                print(f"step_seconds_{name} {measured:.5f}\nprediction_error_{name} {abs(predicted - measured) / measured:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=10, help="of each job; the first two are not counted in times")
    parser.add_argument("--device", default="cuda", help="backend, for a trial of this program elsewhere")
    parser.add_argument("--only", default="", help="jobs in whose names this regular expression is found; and those of the cores alone")
    parser.add_argument("--small-alone", action="store_true", help="not the large jobs")
    parser.add_argument("--keep", help="folder for what tells why a job took what it took: traces, and the cluster with its profiles")
    flags = parser.parse_args()
    if flags.device == "cuda" and subprocess.run(["nvidia-smi"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        print("# no GPU here")
        return
    for folder in (flags.directory, flags.keep):
        if folder:
            os.makedirs(folder, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0))
    device = {"backend": flags.device}
    if flags.device != "cuda":
        device.update(variant=cpu_variants()[0], cores=cores[:1], memory_bytes="4GiB")
    host = {"backend": "cpu", "variant": cpu_variants()[0], "cores": cores[-max(1, len(cores) // 2):], "memory_bytes": "6GiB"}
    jobs = Jobs(flags.device, flags.steps, flags.keep)
    for number, beside in enumerate(({"host": [host]}, {"little": [dict(device, memory_bytes="4GiB")]})):
        cluster = Cluster(flags.binaries, os.path.join(flags.directory, str(number)), {"gpu": [device], **beside})
        cluster.look_seconds = 0.3
        jobs.use(cluster)
        try:
            for family in SMALL:
                jobs.small(family, number, flags.only)
            if not flags.small_alone:
                jobs.large(number, flags.only)
            if flags.keep:
                with open(os.path.join(flags.keep, f"cluster{number}.yaml"), "w") as file:
                    file.write(cluster.medley("nodes", output="cluster"))
        finally:
            cluster.stop()
    for name in jobs.failed:
        print(f"# failed or apart: {name}")
    print(f"gpu_jobs_failed {len(jobs.failed)}")
    sys.exit(1 if jobs.failed else 0)


if __name__ == "__main__":
    main()
