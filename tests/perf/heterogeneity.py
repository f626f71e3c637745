#!/usr/bin/env python3
"""What clusters of unlike devices do of the sum of their parts, in each of several ways to use them, and whether it was foretold.

Each group is a cluster (`medley up`) of two kinds of devices and one training job: two instruction sets of this processor, a core
each; the least of them and OpenCL's device on the processor (PoCL), a core each; six emulated devices, which take the times that
others have measured on two kinds of GPUs, five times over; three emulated devices that share each layer. In each group the job runs
on either kind alone, and on both as the planner's best plan of a kind: replicas, one pipeline, two routes of any length; or with
layers shared by heads, as fast as each was alone. The measured figure is the median of the step times that the coordinator reports.

Prints `key value` lines: for each combination of a group and a way NAME
  heterogeneity_efficiency_NAME         throughput over the sum of the throughputs of the kinds alone
  heterogeneity_efficiency_NAME_at_once over that of the kinds each at its own job, but at once: what sharing a processor costs they lose, too
  machine_GROUP_lockstep_efficiency_TIME  what two cores do that wait for each other each TIME, nothing else running, over what either does
                                        by itself (lockstep.cc; before and after the mixed jobs): where a shared host slows now one
                                        core and now the other, no fixed shares do better, of a step (100ms, 1s) or of a layer (1ms)
  heterogeneity_efficiency_NAME_limit   the same, predicted of nothing but passes, whole sequences, layers and heads (discretisation.py)
  prediction_error_NAME                 of the step of the mixed cluster
and over all of them their medians and the worst, by name.

Of the plans that the first group is also run under, `prediction_error_at_speeds_of_the_run` compares with what is predicted
after the run, when its steps have told how fast the devices were meanwhile: the speed of a shared machine's cores drifts by more
than predictions err.

With --with-load a process of the benchmark's own computes half of the time on the first device's core, while devices are measured
and while the planner's choice trains, and nothing else is run.
"""
import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys

import discretisation
from training_cluster import Cluster, best_variants, cpu_device, cpu_variants, emulated_device, opencl_device


class Bench:
    """One cluster, one job, run under one plan after another; what came of all of them."""

    def __init__(self, flags, group, nodes, model, batch, sequence, sizes, **more):
        self.flags, self.group, self.batch, self.sequence, self.sizes = flags, group, batch, sequence, sizes
        self.model = {"feed_forward": 4 * model["hidden"], **model}
        # Nothing is clipped, and the head is not the embedding: steps of stages may stand staggered (post-validation).
        self.more = {"max_restarts": 0, "optimizer": {"learning_rate": 1e-4, "clip_norm": 0}, **more}
        self.cluster = Cluster(flags.binaries, os.path.join(flags.directory, group), nodes)
        self.text = self.cluster.write("text.txt", " ".join(f"{i} {i * i % 9973}" for i in range(60000)))
        # By a part of a kind's name, then by micro-batch size: a layer's (forward, backward) seconds. Empty: as they are measured.
        self.exact = {}
        self.results = {}  # name: (predicted, measured) seconds of a step

    def spec(self, name, steps=None, **more):
        return {"name": name, "model": {"llama": self.model}, "data": {"train": self.text, "format": "text"},
                "batch": {"sequences": self.batch, "sequence_length": self.sequence}, "steps": steps or self.flags.steps,
                **self.more, **more}

    def choose(self, devices=None, **constraints):
        """What a job says so that the planner uses these devices so."""
        return {"constraints": {"devices": devices or self.cluster.devices, "micro_batch_sizes": self.sizes, **constraints}}

    def run(self, name, steps=None, **more):
        name = f"{self.group}-{name}"
        if self.exact:
            report = self.cluster.medley("plan", "--cluster", self.exact_cluster(),
                                         self.cluster.write(f"{name}.wanted.yaml", json.dumps(self.spec(name, steps, **more))))
            more = {"plan": report["plan"]}
        predicted, measured, state = self.cluster.run(name, json.dumps(self.spec(name, steps, **more)))
        if self.exact:
            predicted = report["predicted_step_seconds"]
        print(f"# {name}: predicted {predicted:.3f} s, measured {measured:.3f} s ({measured / predicted - 1:+.1%})  "
              f"{state['plan']['description']}", flush=True)
        self.results[name] = predicted, measured
        return predicted, measured, state

    def at_once(self, parts, seconds):
        """Measured seconds of a step of each part's own job, while all of them run; seconds: the same alone, so that they end together."""
        steps = [max(3, round(self.flags.steps * max(seconds) / of_part)) for of_part in seconds]
        names = [f"{self.group}-at-once-{index}" for index in range(len(parts))]
        jobs = [self.cluster.submit(name, json.dumps(self.spec(name, count, **self.choose(part))))
                for name, count, part in zip(names, steps, parts)]
        measured = [self.cluster.wait(name, job)[1] for name, job in zip(names, jobs)]
        print(f"# {self.group}, each by itself, at once: {', '.join(f'{time:.3f} s' for time in measured)}", flush=True)
        return measured

    def lockstep(self):
        """By key: how evenly the machine's cores go now."""
        lines = subprocess.run([f"{self.flags.binaries}/lockstep"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        print(f"# {self.group}: {', '.join(lines)}", flush=True)
        return {key: float(value) for key, value in map(str.split, lines)}

    def predict(self, name, **more):
        """Seconds of a step, with what is known of the devices now: a run's traced steps correct their profiles."""
        return self.cluster.medley("plan", self.cluster.write(f"{name}.again.yaml", json.dumps(self.spec(name, **more))))["predicted_step_seconds"]

    # What was measured of the devices.

    def with_exact(self, kind, times):
        """Of one micro-batch size, but with the layers' exact times; what can be put off stays the part of a backward that it is."""
        exact = next((of_kind for part, of_kind in self.exact.items() if part in kind), {}).get(int(times["micro_batch_sequences"]))
        if exact is None:
            return times
        result = {**times, "layer_forward_seconds": exact[0], "layer_backward_seconds": exact[1]}
        if "layer_split_seconds" in times:
            result["layer_split_seconds"] = 0
        if "layer_weight_gradient_seconds" in times:
            result["layer_weight_gradient_seconds"] *= exact[1] / times["layer_backward_seconds"]
        return result

    def exact_cluster(self):
        """A file of the cluster as it was measured, but with exact times: a busy machine measures those of emulated devices longer."""
        text = []
        for profile in re.split(r"(?=  - device_kind:)", self.cluster.medley("nodes", output="cluster")):
            kind = re.match(r'  - device_kind: "(.*)"', profile)
            for times in re.split(r"(?=      - embedding_forward_seconds)", profile):
                listed = {name: float(value) for name, value in re.findall(r"(\w+): ([0-9.e+-]+)$", times, re.MULTILINE)}
                if kind and "micro_batch_sequences" in listed:
                    exact = self.with_exact(kind.group(1), listed)
                    times = re.sub(r"(layer_\w+): \S+", lambda found: f"{found.group(1)}: {exact[found.group(1)]:g}", times)
                text.append(times)
        return self.cluster.write("exact.cluster.yaml", "".join(text))

    def times(self):
        """By kind of device."""
        hidden, heads = self.model["hidden"], self.model["heads"]
        shape = f"llama hidden={hidden} heads={heads}:{heads}x{hidden // heads} ff={self.model['feed_forward']} "
        return {profile["device_kind"]: discretisation.Times(self.with_exact(profile["device_kind"], times) for times in profile["times"])
                for profile in self.cluster.medley("nodes")["profiles"] if profile["shape"].startswith(shape) and profile["times"]}

    def kinds(self):
        """By device."""
        return {f"{node['name']}/{device['name']}": device["kind"] for node in self.cluster.medley("nodes")["nodes"]
                for device in node["devices"]}

    def discrete(self):
        return discretisation.Job(self.times(), self.model["layers"], self.sizes, staggered=True)


class Report:
    def __init__(self):
        self.efficiencies, self.at_once, self.limits, self.errors = {}, {}, {}, {}

    def add(self, name, mixed, alone, at_once, limit):
        """mixed: (predicted, measured) seconds; alone, at_once: measured ones of each part (None: as alone)."""
        predicted, measured = mixed[:2]
        self.efficiencies[name] = discretisation.limit(measured, alone)
        self.at_once[name] = discretisation.limit(measured, at_once or alone)
        self.limits[name] = limit
        self.errors[name] = abs(predicted - measured) / measured
        print(f"heterogeneity_efficiency_{name} {self.efficiencies[name]:.3f}")
        if at_once:
            print(f"heterogeneity_efficiency_{name}_at_once {self.at_once[name]:.3f}")
        print(f"heterogeneity_efficiency_{name}_limit {limit:.3f}")
        print(f"prediction_error_{name} {self.errors[name]:.3f}", flush=True)

    def print_summary(self):
        of_limit = {name: self.efficiencies[name] / self.limits[name] for name in self.limits}
        for key, values, worst in (("heterogeneity_efficiency", self.efficiencies, min),
                                   ("heterogeneity_efficiency_at_once", self.at_once, min),
                                   ("heterogeneity_efficiency_over_limit", of_limit, min), ("prediction_error", self.errors, max)):
            name = worst(values, key=values.get)
            print(f"{key} {statistics.median(values.values()):.3f}")
            print(f"{key}_worst {values[name]:.3f}")
            print(f"{key}_worst_is {name}")
        print(f"combinations {len(self.efficiencies)}")


# The ways to use a cluster that the planner is held to.
WAYS = {"data_parallel": {"max_stages": 1}, "pipeline": {"max_routes": 1}, "two_routes": {"max_routes": 2}}


def run_group(bench, report, parts, ways, shared=False, computes=True):
    """parts: lists of devices, all of a list of one kind. Shared: one device of each part, by heads, too. computes: the devices do, so
    that a machine's drift, and what they share of it, matter."""
    # Where devices do not sum by the cores that compute, what one part of a micro-batch sums travels while another is computed.
    shared_ways = {"tensor_parallel": 1, **({} if computes else {"tensor_parallel_in_parts": 2})} if shared else {}
    names = [f"{bench.group}_{way}" for way in [*ways, *shared_ways]]
    wanted = [name for name in names if bench.flags.only is None or name in bench.flags.only]
    if not wanted:
        return
    # Alone, mixed, alone again: a machine's speed drifts, and the ratio must not.
    alone = [[bench.run(f"alone-{index}", **bench.choose(part))[1]] for index, part in enumerate(parts)]
    evenness = [bench.lockstep()] if computes else []
    mixed = {}
    for way in ways:
        if f"{bench.group}_{way}" in wanted:
            mixed[f"{bench.group}_{way}"] = bench.run(way, **mixed_plan(bench, way))
    speeds = [1 / (len(part) * times[0]) for part, times in zip(parts, alone)]
    for way, exchange_parts in shared_ways.items():
        if f"{bench.group}_{way}" in wanted:
            mixed[f"{bench.group}_{way}"] = bench.run(way, plan=shared_plan(bench, parts, speeds, exchange_parts))
    at_once = None
    if computes:
        evenness.append(bench.lockstep())
        for key in evenness[0]:
            print(f"machine_{bench.group}_{key} {statistics.mean(times[key] for times in evenness):.3f}")
        at_once = bench.at_once(parts, [times[0] for times in alone])
        for index, part in enumerate(parts):
            alone[index].append(bench.run(f"alone-{index}-again", **bench.choose(part))[1])
    alone = [statistics.mean(times) for times in alone]

    job, kinds = bench.discrete(), bench.kinds()
    counts = [{kinds[part[0]]: len(part)} for part in parts]
    parts_alone = [job.step_seconds(count, bench.batch) for count in counts]
    together = {kind: n for count in counts for kind, n in count.items()}
    for name in mixed:
        way = name[len(bench.group) + 1:]
        if way in shared_ways:
            every = [kinds[device] for part in parts for device in part]
            least = job.shared_step_seconds(every, bench.batch, bench.model["heads"])
        else:
            limits = {key.replace("max", "most"): value for key, value in WAYS[way].items()}
            least = job.step_seconds(together, bench.batch, **limits)
        report.add(name, mixed[name], alone, at_once, discretisation.limit(least, parts_alone))
    return alone


def plan_of(micro_batch, routes, blocks, schedule="one_forward_one_backward", of_unit=None, **more):
    """routes: [(micro-batches, [(device, blocks), ...]), ...]; of_unit: what every unit says beside its device and blocks."""
    plan = {"micro_batch_sequences": micro_batch, "schedule": schedule, "units": [], "routes": [], **more}
    for micro_batches, stages in routes:
        units, first = [], 0
        for device, count in stages:
            units.append(len(plan["units"]))
            plan["units"].append({"devices": [device], "blocks": [{"first": first, "end": first + count}], **(of_unit or {})})
            first += count
        assert first == blocks, stages
        plan["routes"].append({"units": units, "micro_batches": micro_batches})
    return plan


def two_ranges_each(micro_batch, micro_batches, devices, blocks):
    """One pipeline in which either device has two ranges of blocks."""
    cuts = [0, *(blocks * i // 4 for i in (1, 2, 3)), blocks]
    ranges = [{"first": first, "end": end} for first, end in zip(cuts, cuts[1:])]
    return {"units": [{"devices": [device], "blocks": ranges[i::2]} for i, device in enumerate(devices)],
            "routes": [{"units": [0, 1, 0, 1], "micro_batches": micro_batches, "micro_batch_sequences": micro_batch}]}


def mixed_plan(bench, way):
    """The planner's choice; where that is one device alone, the pipeline of all that the limit is of."""
    chosen = bench.choose(**WAYS[way])
    if way != "pipeline":
        return chosen
    report = bench.cluster.medley("plan", bench.cluster.write("wanted.yaml", json.dumps(bench.spec("wanted", **chosen))))
    if sum(len(unit["devices"]) for unit in report["plan"]["units"]) == len(bench.cluster.devices):
        return chosen
    kinds = bench.kinds()
    counts = tuple(sorted(collections.Counter(kinds.values()).items()))
    _, order, blocks, size = bench.discrete().best_pipeline(counts, bench.batch)
    free = {kind: [device for device in bench.cluster.devices if kinds[device] == kind] for kind in order}
    stages = [(free[kind].pop(0), count) for kind, count in zip(order, blocks)]
    return {"plan": plan_of(size, [(bench.batch // size, stages)], bench.model["layers"] + 2)}


def shared_plan(bench, parts, speeds, exchange_parts):
    """All devices share every layer, in as many heads each as has the last of them done first; speeds: of one device of each part."""
    of_device = [speed for part, speed in zip(parts, speeds) for _ in part]
    heads = bench.model["heads"]
    shares = min(discretisation.cuts(heads, len(of_device)),
                 key=lambda shares: max(share / speed for share, speed in zip(shares, of_device)))
    size = bench.sizes[-1]
    columns, rows = 4 * bench.model["hidden"] // heads, bench.model["vocabulary"] // heads
    unit = {"devices": sum(parts, []), "blocks": [{"first": 0, "end": bench.model["layers"] + 2}], "exchange_parts": exchange_parts,
            "shares": [{"key_value_heads": n, "feed_forward": n * columns, "vocabulary": n * rows} for n in shares]}
    return {"units": [unit], "routes": [{"units": [0], "micro_batches": bench.batch // size, "micro_batch_sequences": size}]}


# Two instruction sets.

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


def cpu_bench(flags):
    """7.2 million parameters, in so many layers, heads and sequences that they can be cut as the devices' speeds ask."""
    variants = best_variants()
    nodes = {variant: [cpu_device(variant, core)] for variant, core in zip(variants, cores())}
    model = {"layers": 16, "hidden": 192, "heads": 12, "vocabulary": 384}
    return Bench(flags, "cpu", nodes, model, 64, 64, [1, 2, 4], precision="bf16" if "amx" in variants else "f32")


def run_cpu(flags, report):
    bench = cpu_bench(flags)
    a, b = bench.cluster.devices
    try:
        alone = run_group(bench, report, [[a], [b]], ["data_parallel", "pipeline"], shared=True)
        if flags.only is None:
            compare_with_other_plans(bench, a, b, alone)
    finally:
        bench.cluster.stop()


def compare_with_other_plans(bench, a, b, alone):
    """The planner's choice without constraints but the sizes, and plans that it would not take."""
    batch, blocks = bench.batch, bench.model["layers"] + 2
    half = blocks // 2
    chosen = bench.run("chosen", **bench.choose())[1]
    most = round(0.7 * blocks)
    pipeline, replicas = [(batch // 2, [(a, most), (b, blocks - most)])], [(batch * 3 // 8, [(a, blocks)]), (batch // 8, [(b, blocks)])]
    plans = {
        "equal_pipeline": plan_of(1, [(batch, [(a, half), (b, blocks - half)])], blocks),
        "equal_data_parallel": plan_of(2, [(batch // 4, [(a, blocks)]), (batch // 4, [(b, blocks)])], blocks),
        "pipeline_7_to_3": plan_of(2, pipeline, blocks),
        "pipeline_gpipe": plan_of(4, [(batch // 4, [(a, most - 1), (b, blocks - most + 1)])], blocks, "gpipe"),
        "pipeline_zero_bubble": plan_of(2, pipeline, blocks, "zero_bubble_h1"),
        "pipeline_reversed": plan_of(2, [(batch // 2, [(b, most), (a, blocks - most)])], blocks),
        "pipeline_recomputed": plan_of(2, pipeline, blocks, of_unit={"recompute": "layers"}),
        "two_ranges_each": two_ranges_each(2, batch // 2, [a, b], blocks),
        "data_parallel_uneven": plan_of(1, [(batch - batch // 5, [(a, blocks)]), (batch // 5, [(b, blocks)])], blocks),
        "optimizer_sharded": plan_of(2, replicas, blocks, shards_optimizer=True),
        "all_but_attention_recomputed": plan_of(2, replicas, blocks, of_unit={"recompute": "all_but_attention"}),
        "layers_on_peers": plan_of(2, replicas, blocks, "gpipe", {"window_layers": 2, "layers_home": "peers"}, shards_optimizer=True),
    }
    measured, learnt = {}, []
    for name, pinned in plans.items():
        measured[name] = bench.run(name, plan=pinned)[1]
        again = bench.predict(name, plan=pinned)
        learnt.append((again, measured[name]))
        print(f"# {name}: predicted {again:.3f} s with what its own steps taught of the devices", flush=True)
    tokens = batch * bench.sequence
    print(f"devices {a} {b}")
    print(f"precision {bench.more['precision']}")
    print(f"tokens_per_second_a {tokens / alone[0]:.1f}")
    print(f"tokens_per_second_b {tokens / alone[1]:.1f}")
    print(f"tokens_per_second_mixed {tokens / chosen:.1f}")
    print(f"speedup_over_equal_split {min(measured['equal_pipeline'], measured['equal_data_parallel']) / chosen:.3f}")
    errors = sorted(abs(p - m) / m for p, m in bench.results.values())
    print(f"plans {len(errors)}")
    print(f"prediction_error_of_plans_median {errors[len(errors) // 2]:.3f}")
    print(f"prediction_error_of_plans_worst {errors[-1]:.3f}")
    print(f"prediction_rank_correlation {rank_correlation(*zip(*bench.results.values())):.3f}")
    errors = sorted(abs(p - m) / m for p, m in learnt)
    print(f"prediction_error_at_speeds_of_the_run_median {errors[len(errors) // 2]:.3f}")
    print(f"prediction_error_at_speeds_of_the_run_worst {errors[-1]:.3f}")
    print(f"prediction_rank_correlation_at_speeds_of_the_run {rank_correlation(*zip(*learnt)):.3f}")


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


def run_with_load(flags):
    load = Load(cores()[0], 1200)
    bench = cpu_bench(flags)
    try:
        predicted, measured, state = bench.run("chosen", steps=2 * flags.steps, **bench.choose())
        for use in state["plan"].get("profiles", []):
            print(f"# {use['device_kind']}: spread {use.get('spread', 0):.3f} {' '.join(use.get('doubts', []))}")
        print(f"prediction_error_with_load {abs(predicted - measured) / measured:.3f}")
    finally:
        bench.cluster.stop()
        load.stop()


# An instruction set and OpenCL.

def run_opencl(flags, report):
    """A job so small that PoCL's device takes seconds for a step."""
    first, second = cores()
    variant = cpu_variants()[-1]
    nodes = {variant: [cpu_device(variant, first)], "opencl": [opencl_device(second)]}
    bench = Bench(flags, "opencl", nodes, {"layers": 16, "hidden": 128, "heads": 4, "vocabulary": 256}, 64, 64, [1, 2, 4])
    try:
        run_group(bench, report, [[device] for device in bench.cluster.devices], ["data_parallel", "pipeline"])
    finally:
        bench.cluster.stop()


# Emulated kinds.

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "examples")
STRETCH = 2  # so that messages and waking up take as little of a step here as they would there
# As many layers as large models have, which unlike stages can share as finely.
NARROW = {"layers": 42, "hidden": 32, "heads": 4, "vocabulary": 256}

PROFILE = """kind: %(kind)s
memory_bytes: 16GiB
matmul_f32_flops_per_second: %(flops)g
memory_bytes_per_second: 20e9
host_link_bytes_per_second: 5e9
op_overhead_seconds: 5e-6
"""


def measured_layers(kind):
    """Of an example's profile: milliseconds of a layer's (forward, backward), by micro-batch size."""
    with open(os.path.join(EXAMPLES, f"emulated-{kind}.yaml")) as file:
        found = re.findall(r"micro_batch: (\d+).*?forward_ms: ([0-9.]+), backward_ms: ([0-9.]+)", file.read(), re.DOTALL)
    return {int(size): (STRETCH * float(forward), STRETCH * float(backward)) for size, forward, backward in found}


def write_profile(flags, kind, flops, layers):
    path = os.path.join(flags.directory, kind + ".yaml")
    with open(path, "w") as file:
        file.write(PROFILE % {"kind": kind, "flops": flops})
        if layers:
            file.write("layers:\n")
        for size, (forward, backward) in layers.items():
            file.write(f"  - {{family: llama, hidden: 32, feed_forward: 128, heads: 4, sequence: 32, micro_batch: {size}, precision: f32, "
                       f"forward_ms: {forward:g}, backward_ms: {backward:g}}}\n")
    return emulated_device(path)


def run_emulated(flags, report):
    """Two of the one kind and four of the other, each two a node."""
    sizes = [1, 2, 4]
    layers = {kind: measured_layers(kind) for kind in ("a100", "l4")}
    devices = {kind: write_profile(flags, f"{kind}-times-{STRETCH}", 20e9, layers[kind]) for kind in layers}
    nodes = {"large": [devices["a100"]] * 2, "small-1": [devices["l4"]] * 2, "small-2": [devices["l4"]] * 2}
    bench = Bench(flags, "emulated", nodes, NARROW, 128, 32, sizes, allow_emulated=True)
    try:
        # Measured once, so that there is a cluster whose times can be made exact.
        bench.cluster.medley("plan", bench.cluster.write("measured.yaml", json.dumps(bench.spec("measured", **bench.choose()))))
        bench.exact = {kind: {size: [milliseconds / 1e3 for milliseconds in layers[kind][size]] for size in sizes} for kind in layers}
        run_group(bench, report, [bench.cluster.devices[:2], bench.cluster.devices[2:]], ["data_parallel", "pipeline", "two_routes"],
                  computes=False)
    finally:
        bench.cluster.stop()


def run_emulated_shared(flags, report):
    """Two fast ones and one that takes 1.6 times as long, on one node. Their parts of a layer take what their products take."""
    fast, slow = write_profile(flags, "products-1", 0.4e9, {}), write_profile(flags, "products-1.6", 0.25e9, {})
    bench = Bench(flags, "emulated_shared", {"node": [fast, fast, slow]},
                  {"layers": 4, "hidden": 104, "heads": 13, "vocabulary": 260}, 16, 64, [2, 4], allow_emulated=True)
    try:
        run_group(bench, report, [bench.cluster.devices[:2], bench.cluster.devices[2:]], [], shared=True, computes=False)
    finally:
        bench.cluster.stop()


def cores():
    allowed = sorted(os.sched_getaffinity(0))[:2]
    if len(allowed) < 2:
        sys.exit("needs two cores")
    return allowed


GROUPS = {"cpu": run_cpu, "opencl": run_opencl, "emulated": run_emulated, "emulated_shared": run_emulated_shared}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=8, help="of each job; the first two are not counted")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these combinations, such as cpu_pipeline")
    parser.add_argument("--with-load", action="store_true", help="the planner's choice alone, beside a load")
    flags = parser.parse_args()
    flags.directory = os.path.abspath(flags.directory)
    os.makedirs(flags.directory, exist_ok=True)
    if flags.with_load:
        run_with_load(flags)
        return
    report = Report()
    for group in flags.groups:
        if flags.only and not any(name.startswith(group + "_") for name in flags.only):
            continue
        try:
            GROUPS[group](flags, report)
        except (SystemExit, subprocess.CalledProcessError) as why:  # such as on a machine without PoCL
            print(f"# {group}: not measured: {why}", flush=True)
    if not report.efficiencies:
        sys.exit("nothing was measured")
    report.print_summary()


if __name__ == "__main__":
    main()
