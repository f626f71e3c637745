#!/usr/bin/env python3
"""All-reduce of f32 over 2 and 4 processes on two cores: ours against Open MPI's and Gloo's.

`allreduce_vs_openmpi_*` is Open MPI's time (its default transports and algorithm) over ours over shared
memory, `allreduce_vs_gloo_*` that of Gloo (a ring over TCP on loopback) over ours over shared memory, which
is what automatic links take on one machine, and `allreduce_vs_gloo_tcp_*` over ours over TCP on loopback.
Above 1, ours is faster.

All are run in turn, with as many iterations, pinned alike (rank i on the i-th core, over and over) and timed
alike (the slowest rank's median). Each figure is the median of the rounds' ratios; of our algorithms the one
with the best median counts.
"""
import argparse
import os
import statistics
import subprocess
import tempfile

import measure

ALGORITHMS = ("ring", "halving-doubling")


class Contest:
    def __init__(self, benchmark, folder, cores, seconds):
        self.benchmark, self.folder, self.cores, self.seconds = benchmark, folder, cores, seconds
        source = os.path.dirname(os.path.abspath(__file__))
        self.openmpi, self.gloo = os.path.join(folder, "openmpi_all_reduce"), os.path.join(folder, "gloo_all_reduce")
        optimised = ["-O3", "-std=c++17", "-I", os.path.join(source, *3 * [os.pardir])]
        measure.run(["mpicxx", *optimised, source + "/openmpi_all_reduce.cc", "-o", self.openmpi])
        measure.run(["g++", *optimised, source + "/gloo_all_reduce.cc", "-o", self.gloo, "-lgloo", "-lpthread"])

    def on_cores(self, arguments):
        return ["taskset", "-c", ",".join(map(str, self.cores)), *arguments]

    def ours(self, size, ranks, links, algorithm):
        """Microseconds, and the iterations that took."""
        found = measure.key_values(measure.run(self.on_cores(
            [self.benchmark, "--ranks", ranks, "--bytes", size, "--links", links, "--algorithm", algorithm, "--seconds",
             self.seconds])))
        return found["allreduce_microseconds"], int(found["iterations"])

    def run_openmpi(self, size, ranks, iterations):
        pinned = 'exec taskset -c $(echo %s | cut -d, -f$((OMPI_COMM_WORLD_RANK %% %d + 1))) "$@"' % (
            ",".join(map(str, self.cores)), len(self.cores))
        output = measure.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", ranks, "bash", "-c",
                              pinned, "pinned", self.openmpi, size, iterations])
        return measure.key_values(output)["allreduce_microseconds"]

    def run_gloo(self, size, ranks, iterations):
        with tempfile.TemporaryDirectory(dir=self.folder) as store:
            output = measure.run([self.gloo, size, iterations, ranks, ",".join(map(str, self.cores)), store])
        return measure.key_values(output)["allreduce_microseconds"]


def compare(contest, mebibytes, ranks, rounds):
    size = mebibytes << 20
    theirs = {"openmpi": [], "gloo": []}
    ours = {(links, algorithm): [] for links in ("shm", "tcp") for algorithm in ALGORITHMS}
    for _ in range(rounds):
        for links, rival, run in (("shm", "openmpi", contest.run_openmpi), ("tcp", "gloo", contest.run_gloo)):
            iterations = 5
            for algorithm in ALGORITHMS:
                microseconds, iterations = contest.ours(size, ranks, links, algorithm)
                ours[links, algorithm].append(microseconds)
            theirs[rival].append(run(size, ranks, iterations))
    where = "%dMiB_%dranks" % (mebibytes, ranks)
    for links, rival, name in (("shm", "openmpi", "openmpi"), ("shm", "gloo", "gloo"), ("tcp", "gloo", "gloo_tcp")):
        algorithm = min(ALGORITHMS, key=lambda one: statistics.median(ours[links, one]))
        mine = ours[links, algorithm]
        measure.note("%s over %s, %s: ours %s us, %s %s us" % (where, links, algorithm, measure.spread(mine), rival,
                                                              measure.spread(theirs[rival])))
        measure.figure("allreduce_vs_%s_%s" % (name, where),
                       statistics.median(other / own for other, own in zip(theirs[rival], mine)), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", required=True, help="comm/collective's all_reduce_benchmark")
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=1, help="for each run")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="medley-all-reduce-") as folder:
        contest = Contest(flags.benchmark, folder, measure.cores(), flags.seconds)
        version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
        measure.note("%s; Gloo of this distribution" % version)
        for ranks in flags.ranks:
            for mebibytes in flags.mebibytes:
                compare(contest, mebibytes, ranks, flags.rounds)


if __name__ == "__main__":
    main()
