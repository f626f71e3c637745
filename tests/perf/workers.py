#!/usr/bin/env python3
"""Many workers on one machine: whether a plan for hundreds of devices starts, trains and ends, and what that costs.

Starts a cluster (`medley up`) of nodes with emulated devices, which take the time of their profile and compute nothing, and trains
under a plan of that many replicas of a few stages: each rank is a real worker, with its own connections, messages, sums and
scalars. Prints `key value` lines: seconds from submitting until the first step has ended and of the steps after it, memory of the workers
and of the coordinator, and the most connections that one worker has.
"""
import argparse
import json
import os
import statistics
import time

from training_cluster import Cluster, emulated_device

HIDDEN, HEADS, SEQUENCE = 32, 4, 32
PROFILE = """kind: Times
memory_bytes: 1GiB
matmul_f32_flops_per_second: 20e9
memory_bytes_per_second: 20e9
host_link_bytes_per_second: 5e9
op_overhead_seconds: 5e-6
layers:
  - {hidden: %d, feed_forward: %d, heads: %d, sequence: %d, micro_batch: 1, precision: f32, forward_ms: 200, backward_ms: 400}
""" % (HIDDEN, 4 * HIDDEN, HEADS, SEQUENCE)


def plan(devices, stages):
    """Replicas of so many stages of a layer each, on devices side by side."""
    units, routes = [], []
    for first in range(0, len(devices), stages):
        for stage in range(stages):
            begin, end = (0 if stage == 0 else stage + 1), (stages + 2 if stage + 1 == stages else stage + 2)
            units.append({"devices": [devices[first + stage]], "blocks": [{"first": begin, "end": end}]})
        routes.append({"units": list(range(first, first + stages)), "micro_batches": 2})
    return {"micro_batch_sequences": 1, "units": units, "routes": routes}


def processes(name):
    """Process numbers of this machine's programs of that name."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/comm") as file:
                if entry.isdigit() and file.read().strip() == name[:15]:
                    found.append(int(entry))
        except OSError:  # it has ended
            pass
    return found


def own_bytes(process):
    """Memory that no other process has, too."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Private_Dirty")))


def sockets(process):
    count = 0
    for descriptor in os.listdir(f"/proc/{process}/fd"):
        try:
            count += os.readlink(f"/proc/{process}/fd/{descriptor}").startswith("socket:")
        except OSError:
            pass
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--stages", type=int, default=4, help="of each replica")
    parser.add_argument("--steps", type=int, default=5)
    flags = parser.parse_args()
    if flags.workers % (flags.nodes * flags.stages) != 0:
        parser.error(f"--workers: {flags.workers} is not a multiple of nodes x stages, {flags.nodes * flags.stages}")

    os.makedirs(flags.directory, exist_ok=True)
    profile = os.path.join(flags.directory, "times.yaml")
    with open(profile, "w") as file:
        file.write(PROFILE)
    of_node = flags.workers // flags.nodes
    cluster = Cluster(flags.binaries, flags.directory, {f"n{i}": [emulated_device(profile)] * of_node for i in range(flags.nodes)})
    try:
        text = cluster.write("text.txt", " ".join(str(i) for i in range(60000)))
        job = {"name": "many", "allow_emulated": True,
               "model": {"gpt2": {"layers": flags.stages, "hidden": HIDDEN, "heads": HEADS, "vocabulary": 256}},
               "data": {"train": text, "format": "text"},
               "batch": {"sequences": 2 * flags.workers // flags.stages, "sequence_length": SEQUENCE},
               "steps": flags.steps, "optimizer": {"learning_rate": 1e-4}, "max_restarts": 0,
               "plan": plan(cluster.devices, flags.stages)}
        begin = time.monotonic()
        job = cluster.medley("submit", cluster.write("many.yaml", json.dumps(job)))
        job_id = job.get("job", job)["id"]
        first_step, most_workers, worker_bytes, coordinator_bytes, most_sockets = None, 0, [], 0, 0
        while True:
            state = cluster.medley("status", job_id)
            state = state.get("job", state)
            workers = processes("medley-worker")
            if len(workers) >= flags.workers and first_step is None and int(state.get("last_step", {}).get("step", 0)) >= 1:
                first_step = time.monotonic() - begin
                worker_bytes = [own_bytes(worker) for worker in workers]
                most_sockets = max(sockets(worker) for worker in workers)
                coordinator_bytes = max(own_bytes(process) for process in processes("medley-coordinator"))
            most_workers = max(most_workers, len(workers))
            if state["state"] in ("done", "failed", "cancelled"):
                break
            time.sleep(1)  # between looks
        print(f"workers_started {most_workers}")
        print(f"workers_state {state['state']}")
        if state["state"] != "done":
            print(f"# {state.get('state_reason', '')}")
            return
        print(f"workers_seconds_all {time.monotonic() - begin:.1f}")
        print(f"workers_launch_seconds {state.get('launch_seconds', 0):.1f}")
        if first_step is not None:
            print(f"workers_seconds_to_first_step {first_step:.1f}")
            print(f"workers_resident_mib_each {statistics.median(worker_bytes) / 2**20:.1f}")
            print(f"workers_resident_mib_all {sum(worker_bytes) / 2**20:.0f}")
            print(f"workers_coordinator_resident_mib {coordinator_bytes / 2**20:.0f}")
            print(f"workers_most_sockets {most_sockets}")
        print(f"workers_step_seconds {state['measured_step_seconds']:.3f}")
        print(f"workers_step_seconds_predicted {state['plan']['predicted_step_seconds']:.3f}")
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
