"""Programs of two commits in one cluster, as during an upgrade. skew_trials.sh builds both and starts this:

    MEDLEY_BINARIES=NEW skew_trials.py OLD      folders with the four programs

- Every mixture of an old or new coordinator, two agents that train one job together, and a command line: the job has the loss curve of
  the new programs alone, and what the command line shows and does is the same.
- A job that lasts through an upgrade, program by program, the coordinator first: it ends done with that curve, every step there once, and
  the new coordinator knows what the old one had written down.

One line a trial; a failed one's logs behind it. Exits with 1 if a trial failed.
"""
import itertools
import os
import shutil
import sys
import tempfile
import time
import traceback

import cluster
from cluster import ENDED, Cluster, ClusterTest, core, cpu_device, cpu_variants, route, unit, write_file

NEW = cluster.BINARIES
STEPS = 12
UPGRADE_STEPS = 200
PROGRAMS = ("medley-coordinator", "medley-agent", "medley-agent", "medley")


def both_agents():
    """A pipeline over a and b: what each sends, the other one reads."""
    return {"micro_batch_sequences": 2, "schedule": "one_forward_one_backward", "units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)],
            "routes": [route([0, 1], 4)]}


class Trials:
    def __init__(self, old):
        self.folders = {"old": old, "new": NEW}
        self.directory = tempfile.mkdtemp(prefix="skew-trials.")
        ClusterTest.data = write_file(os.path.join(self.directory, "train.txt"), cluster.training_text())
        self.devices = {"a": [cpu_device(cpu_variants()[0], core(0))], "b": [cpu_device(cpu_variants()[-1], core(1))]}
        self.running, self.expected = None, None
        self.failed = 0

    def close(self):
        if self.running:
            self.running.kill_all()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, coordinator, a, b, cli):
        """A new cluster; each argument "old" or "new"."""
        if self.running:
            self.running.kill_all()
        running = self.running = Cluster(tempfile.mkdtemp(prefix="cluster.", dir=self.directory))
        running.folders = {"medley-coordinator": self.folders[coordinator], "medley": self.folders[cli]}
        running.start_coordinator()
        for name, version in (("a", a), ("b", b)):
            self.start_agent(name, version)
        running.wait_for_nodes("a", "b")
        return running

    def start_agent(self, name, version):
        self.running.folders["medley-agent"] = self.folders[version]
        self.running.start_agent(name, self.devices[name])

    def mixture(self, *versions):
        running = self.start(*versions)
        job = running.submit(ClusterTest.spec("mixed", steps=STEPS, plan=both_agents()))
        running.wait_for_state(job, "done")
        curve = running.curve(job)
        if self.expected is None:
            self.expected = curve
        ClusterTest().assert_same_curves(self.expected, curve)
        self.check_command_line(running, job)

    @staticmethod
    def check_command_line(running, job):
        ClusterTest().assertIn(job, [one["id"] for one in running.json("status")["jobs"]])
        used = {device for of_unit in running.job(job)["plan"]["plan"]["units"] for device in of_unit["devices"]}
        ClusterTest().assertEqual({"a/cpu0", "b/cpu0"}, used)
        ClusterTest().assertIn("a", running.cli("logs", job).out)
        endless = running.submit(ClusterTest.spec("endless", steps=1_000_000, plan=both_agents()))
        running.wait_for_step(endless, 2)
        running.cli("cancel", endless)
        running.wait_for_state(endless, "cancelled")

    def upgrade(self):
        running = self.start("old", "old", "old", "old")
        before = running.submit(ClusterTest.spec("before", steps=STEPS, plan=both_agents()))
        running.wait_for_state(before, "done")
        written = running.curve(before)

        def spec(name, steps):
            return ClusterTest.spec(name, steps=steps, batch=self.batch, constraints={"micro_batch_sizes": [8]},
                                    checkpoint={"directory": running.path("checkpoints"), "every_steps": 10})

        self.batch = {"sequences": 64, "sequence_length": 32}
        self.batch["sequences"] = ClusterTest.sequences_of_long_steps(running, spec("calibration", 12))
        alone = running.submit(spec("undisturbed", UPGRADE_STEPS))
        running.wait_for_state(alone, "done", seconds=600)
        job = running.submit(spec("upgraded", UPGRADE_STEPS))

        running.wait_for_step(job, 20)
        running.coordinator.kill(cluster.signal.SIGTERM)
        running.folders.update({"medley-coordinator": NEW, "medley": NEW})
        running.start_coordinator()
        for name in "ab":
            step = int((running.job(job).get("last_step") or {}).get("step", 0))
            running.wait_for_step(job, step + 20)  # the agents are back, and it trains
            running.agents[name].kill(cluster.signal.SIGTERM)
            self.start_agent(name, "new")
            running.wait_for_nodes(name)
        state = running.job(job)["state"]
        if state in ENDED:
            raise AssertionError("the job was %s before the last agent was upgraded: it needs more steps" % state)
        done = running.wait_for_state(job, "done", seconds=600)
        ClusterTest().assert_same_curves(running.curve(alone), running.curve(job), norm_tolerance=1e-2, what="upgraded")
        ClusterTest().assertEqual(written, running.curve(before))
        return "attempt %d, %d restarts" % (done["attempt"], done["restarts"])

    def run(self, columns, trial):
        begin = time.monotonic()
        try:
            said = trial() or ""
        except Exception as error:
            self.failed += 1
            print("%s  FAILED: %s" % (columns, str(error).split("\n")[0]), flush=True)
            traceback.print_exc()
            for process in [self.running.coordinator, *self.running.agents.values()]:
                if process is not None:
                    print("%s:\n%s" % (process.name, process.log()[-2500:]), file=sys.stderr)
        else:
            print("%s  the same  %5.1f s  %s" % (columns, time.monotonic() - begin, said), flush=True)

    def run_all(self):
        print("%-12s%-9s%-9s%s" % ("coordinator", "agent a", "agent b", "command line"))
        # The new ones alone come first: theirs is the curve.
        for versions in itertools.product(("new", "old"), repeat=len(PROGRAMS)):
            self.run("%-12s%-9s%-9s%-12s" % versions, lambda: self.mixture(*versions))
        self.run("%-42s" % "an upgrade, program by program", self.upgrade)


def main():
    if len(sys.argv) != 2 or not all(os.access(os.path.join(sys.argv[1], name), os.X_OK) for name in PROGRAMS):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    trials = Trials(os.path.abspath(sys.argv[1]))
    try:
        trials.run_all()
    finally:
        trials.close()
    print("%d failed" % trials.failed)
    sys.exit(bool(trials.failed))


if __name__ == "__main__":
    main()
