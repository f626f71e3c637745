#!/usr/bin/env python3
"""All-reduce between two sites of two hosts, joined by a slow link: a flat ring in order of rank against the
hierarchical one.

The hosts are network namespaces; the link is limited with `tc ... tbf`, and what one socket gets over it is
printed first. Both are run in turn several times; `hierarchical_gain` is the median of the ratios of their
median times, with two ranks a host, and `hierarchical_gain_one_rank_a_host` the same with one. By bytes over
the link, a flat ring of n ranks takes 2 (n - 1) / n times the vector each way and the hierarchical one takes
1: 1.75 and 1.5 are the most there is to gain.
"""
import argparse
import os
import statistics
import sys
import tempfile

import measure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
import network_hosts  # noqa: E402
from network_group import Group  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="tests/integration's collective_peer")
    parser.add_argument("--megabits", type=float, default=200, help="per second, of the link between the sites, each way")
    parser.add_argument("--mebibytes", type=int, default=32, help="of the vector")
    parser.add_argument("--seconds", type=float, default=8, help="for each run")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    size = flags.mebibytes << 20
    try:
        network = network_hosts.NetworkHosts([2, 2], flags.megabits)
    except network_hosts.NotPermitted as why:
        measure.note("hierarchical_gain is not measured: %s" % why)
        return
    with network, tempfile.TemporaryDirectory(prefix="medley-hierarchical-") as directory:
        rate = network_hosts.socket_bytes_per_second(network["a0"], network["b1"], flags.megabits / 8)
        measure.note("the link carries %.0f Mbit/s of %.0f" % (rate * 8e-6, flags.megabits))
        for per_host, suffix in ((2, ""), (1, "_one_rank_a_host")):
            hosts = [host for host in network.hosts for _ in range(per_host)]
            groups = "%d,%d" % (2 * per_host, 2 * per_host)
            times = {"ring": [], "hierarchical": []}
            for number in range(flags.rounds):
                for algorithm, options in (("ring", []), ("hierarchical", ["--groups", groups])):
                    with Group(flags.peer, os.path.join(directory, "%s%d-%d" % (algorithm, per_host, number)), hosts,
                               "--algorithm", algorithm, *options, "--bytes", size, "--seconds", flags.seconds,
                               cores=measure.cores()) as group:
                        group.wait()
                        times[algorithm].append(group.peers[0].all_reduce_seconds()[size][1])
            gains = [flat / nested for flat, nested in zip(times["ring"], times["hierarchical"])]
            measure.note("%d MiB, %d rank(s) a host: flat %s s, hierarchical %s s" % (
                flags.mebibytes, per_host, measure.spread(times["ring"]), measure.spread(times["hierarchical"])))
            measure.figure("hierarchical_gain" + suffix, statistics.median(gains), 2)


if __name__ == "__main__":
    main()
