#!/usr/bin/env python3
"""How well fitted link models predict transfers and all-reduces: over TCP and shared memory on this machine,
and over a limited link between two hosts, which are network namespaces. `link_model_error_*` is the median
relative error of five rounds that each probe anew, `link_model_error_worst_round_*` that of the worst of them."""
import argparse
import os
import subprocess
import sys
import tempfile

import measure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integration"))
import network_hosts  # noqa: E402


def report(output):
    for name, value in measure.key_values(output).items():
        measure.figure(name, value, 4)


def over_a_limited_link(benchmark, megabits, name):
    try:
        network = network_hosts.NetworkHosts([1, 1], megabits)
    except network_hosts.NotPermitted as why:
        measure.note("link_model_error_%s is not measured: %s" % (name, why))
        return
    with network, tempfile.TemporaryDirectory(prefix="medley-link-") as directory:
        ends = []
        cores = measure.cores()
        for rank, host in enumerate(network.hosts):
            command = [benchmark, "--rank", str(rank), "--directory", directory, "--name", name, "--links", "tcp",
                       "--network_devices", host.device, "--core", str(cores[rank % len(cores)])]
            ends.append(subprocess.Popen(host.command(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True))
        try:
            outputs = [end.communicate(timeout=300) for end in ends]
        finally:
            for end in ends:
                end.kill()
        if any(end.returncode for end in ends):
            raise SystemExit("link_model_benchmark over the limited link:\n%s" % "".join(err for _, err in outputs))
        report(outputs[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", required=True, help="comm/probe's link_model_benchmark")
    parser.add_argument("--megabits", type=float, nargs="*", default=[200, 1000], help="per second, of the limited links")
    flags = parser.parse_args()
    report(measure.run([flags.benchmark]))
    for megabits in flags.megabits:
        over_a_limited_link(os.path.abspath(flags.benchmark), megabits, "%.0fmbit" % megabits)


if __name__ == "__main__":
    main()
