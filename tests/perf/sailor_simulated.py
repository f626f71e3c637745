#!/usr/bin/env python3
"""Plans of Sailor's clusters under Sailor's own simulator.

Copies what class_benchmark prints from standard input, and behind each plan of ours (`plan_sailor_NAME JSON`) prints
  sailor_simulated_NAME    iterations a second of our plan over those of Sailor's, both by its simulator
or, once, a line that says why there are none. DATA/profiles/sailor/best_plans has Sailor's plans and evaluate.py, which calls the
simulator in a check-out of github.com/eth-easl/sailor: the environment variable SAILOR_PATH names the folder in which that is
"sailor". Pipelines of ours have micro-batches of their own size and number, which Sailor's plans cannot say; the simulator's functions
are asked with each pipeline's own (--mode uneven), which of Sailor's plans changes nothing.
"""
import json
import os
import subprocess
import sys
import tempfile

PLAN = "plan_sailor_"


class NotSimulated(Exception):
    pass


class Simulator:
    """data: the folder of published data."""

    def __init__(self, data):
        self.folder = os.path.join(data, "profiles", "sailor", "best_plans")
        self.evaluate = os.path.join(self.folder, "evaluate.py")

    def score(self, name, path):
        """What the simulator says of the plan in a file, on the cluster of that name."""
        if not os.path.exists(self.evaluate):
            raise NotSimulated(f"{self.evaluate} is not there")
        run = subprocess.run([sys.executable, "-B", self.evaluate, path, "--cluster", self.cluster(name), "--mode", "uneven", "--json"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            reason = run.stderr.strip().split("\n")[-1]
            if "No module named" in reason:
                reason += (f"; SAILOR_PATH is \"{os.environ.get('SAILOR_PATH', '')}\" and has to name a folder in which \"sailor\" is a "
                           "check-out of github.com/eth-easl/sailor")
            raise NotSimulated(reason)
        return json.loads(run.stdout)

    def cluster(self, name):
        """The file of a cluster, which has Sailor's plan for it, too."""
        return os.path.join(self.folder, f"{name}.json")


def report(simulator, name, plan):
    """Lines on `plan`, JSON text, of the cluster of that name. NotSimulated: the simulator does not run, or refuses a plan."""
    theirs = simulator.score(name, simulator.cluster(name))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(plan)
        file.flush()
        ours = simulator.score(name, file.name)
    lines = [f"# {name} by Sailor's simulator: ours {ours['iteration_time_s']:.3f} s, "
             f"{'fits' if ours['fits_in_memory'] else 'DOES NOT FIT'} in memory; theirs {theirs['iteration_time_s']:.3f} s"]
    lines += [f"# {name} by Sailor's simulator: {warning}" for warning in ours["warnings"]]
    return [*lines, f"sailor_simulated_{name} {ours['iterations_per_s'] / theirs['iterations_per_s']:.4f}"]


def with_scores(lines, simulator):
    """The lines, and behind each plan what is to be said of it; why it was not simulated is said once."""
    said = set()
    for line in lines:
        yield line.rstrip("\n")
        key, _, plan = line.partition(" ")
        if not key.startswith(PLAN):
            continue
        name = key[len(PLAN):]
        try:
            yield from report(simulator, name, plan)
        except NotSimulated as why:
            if str(why) not in said:
                yield f"# sailor_simulated_{name} skipped: {why}"
            said.add(str(why))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: class_benchmark DATA | sailor_simulated.py DATA")
    for line in with_scores(sys.stdin, Simulator(sys.argv[1])):
        print(line, flush=True)


if __name__ == "__main__":
    main()
