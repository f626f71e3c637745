#!/usr/bin/env python3
"""Messages between two processes on two cores, over shared memory and TCP: the transport's against
ucx_perftest's.

Both are run in turn, in rounds, since others use the machine too, which also moves its cores about. In a round the
best of each counts, and of the rounds' ratios the median. `p2p_*_efficiency_4MiB` is the transport's bandwidth over that of UCX's bare tag messages (`tag_bw`),
`p2p_latency_ratio_8B` its latency over theirs (`tag_lat`) over shared memory.
"""
import argparse
import operator
import os
import statistics
import subprocess
import time

import measure

ENVIRONMENTS = {"shm": {"UCX_TLS": "sm,self"}, "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}}
BANDWIDTH = ["-t", "tag_bw", "-s", 4 << 20, "-n", 100, "-w", 4]
LATENCY = ["-t", "tag_lat", "-s", 8, "-n", 20000, "-w", 1000]


def perftest(path, test, cores):
    """The figures of the last line: microseconds one way, and 10^6 bytes (2^20 of them) per second."""
    port = measure.free_port()
    environment = ENVIRONMENTS[path]
    common = ["ucx_perftest", "-p", port, "-f", "-v", *test]
    server = subprocess.Popen(["taskset", "-c", str(cores[1]), *map(str, common)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    try:
        deadline = time.monotonic() + 20
        while not listens(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("ucx_perftest does not listen")
            time.sleep(0.01)
        output = measure.run(["taskset", "-c", cores[0], common[0], "127.0.0.1", *common[1:]], 60, **environment)
        server.wait(20)
    finally:
        server.kill()
    last = output.strip().splitlines()[-1].split(",")
    return {"microseconds": float(last[3]), "bytes_per_second": float(last[5]) * 2**20}


def listens(port):
    with open("/proc/net/tcp") as file:
        sockets = [line.split() for line in file.readlines()[1:]]
    return any(fields[1].endswith(":%04X" % port) and fields[3] == "0A" for fields in sockets)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", required=True, help="comm/perf's p2p_benchmark")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    cores = measure.cores()
    idle, rounds = [], {path: [] for path in ENVIRONMENTS}
    for _ in range(flags.rounds):
        theirs = {path: [(perftest(path, BANDWIDTH, cores)["bytes_per_second"], perftest(path, LATENCY, cores)["microseconds"])
                         for _ in range(4)] for path in ENVIRONMENTS}
        ours = measure.key_values(measure.run([flags.benchmark, *cores]))
        idle.append(ours["idle_cpu_share"])
        for path, figures in theirs.items():
            rates, waits = zip(*figures)
            rounds[path].append((ours["p2p_%s_bandwidth_4MiB_bytes_per_second" % path], max(rates),
                                 ours["p2p_%s_latency_8B_microseconds" % path], min(waits)))
    for path, figures in rounds.items():
        rates, their_rates, waits, their_waits = zip(*figures)
        measure.note("%s, best of each round: %s GB/s against %s, %s us against %s" % (
            path, measure.spread([rate / 1e9 for rate in rates]), measure.spread([rate / 1e9 for rate in their_rates]),
            measure.spread(waits), measure.spread(their_waits)))
        measure.figure("p2p_%s_efficiency_4MiB" % path, statistics.median(map(operator.truediv, rates, their_rates)))
        measure.figure("p2p_latency_ratio_8B" + ("" if path == "shm" else "_tcp"),
                       statistics.median(map(operator.truediv, waits, their_waits)))
    measure.note("idle_cpu_share: processor time of a connected process that does nothing, of one core; the worst "
                 "of %d times 2 s" % (2 * flags.rounds))
    measure.figure("idle_cpu_share", max(idle), 5)


if __name__ == "__main__":
    main()
