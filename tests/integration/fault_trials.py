"""Trials of faults: something is killed or stopped at a random moment of a job, and the job must not be worse for it.

    fault_trials [--trials N] [--seed N] [--longest-stop SECONDS]

Each trial trains one job on three agents, and at a moment of its seed (a step, a time since the submission, which may lie in
profiling or launching, or while a checkpoint is written) sends SIGKILL or SIGSTOP to one process: a worker, an agent or the
coordinator. What was killed is started again, as systemd would; what was stopped goes on after a while, or never. Then:

- the job ends done, and something of it moves at least every few minutes until then;
- its loss curve is that of an undisturbed run, every step there once;
- no step that was shown is lost but those after the last checkpoint that was shown;
- a coordinator alone costs no attempt;
- of an agent that is stopped for long the workers end, and at the end there are no workers at all.

One line a trial; a seed repeats it, but for what the machine does. Exits with 1 if a trial failed.
"""
import argparse
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import cluster
from cluster import ENDED, Cluster, core, cpu_device, cpu_variants, wait_for, write_file

LEASE_SECONDS = 3
STEPS = 160
CHECKPOINT_EVERY = 10
MOST_RESTARTS = 2  # that one fault may cost
WITHOUT_PROGRESS_SECONDS = 240  # a hung device is noticed after minutes


def step_of(job):
    return int((job.get("last_step") or {}).get("step", 0))


class Failure(Exception):
    """What a trial found wrong."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def is_alive(pid):
    """Whether a process is there and not dead already; a stopped one is alive."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def programs_running(name, environment_mark):
    """Processes of a program of these trials, whoever their parent is by now."""
    pids = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as file:
                program = os.path.basename(file.read().split(b"\0")[0].decode(errors="replace"))
            with open(path + "/environ", "rb") as file:
                ours = environment_mark.encode() in file.read().split(b"\0")
        except OSError:
            continue
        pid = int(os.path.basename(path))
        if program == name and ours and is_alive(pid):
            pids.append(pid)
    return sorted(pids)


class Trials:
    def __init__(self, longest_stop):
        self.longest_stop = longest_stop
        self.mark = "MEDLEY_FAULT_TRIALS=%d.%s" % (os.getpid(), os.urandom(4).hex())
        os.environ.update([self.mark.split("=", 1)])
        self.directory = tempfile.mkdtemp(prefix="fault-trials.", dir=os.environ.get("TEST_TMPDIR"))
        self.data = write_file(os.path.join(self.directory, "train.txt"), cluster.training_text())
        variants = cpu_variants()
        self.devices = {name: [cpu_device(variants[min(place, len(variants) - 1)], core(place))]
                        for place, name in enumerate("abc")}
        self.count = 0
        self.running = None

    def close(self):
        if self.running:
            self.running.kill_all()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_cluster(self):
        """A new one, that knows no profiles."""
        if self.running:
            self.running.kill_all()
        self.running = Cluster(tempfile.mkdtemp(prefix="cluster.", dir=self.directory), lease_seconds=LEASE_SECONDS)
        self.running.start(self.devices)

    def spec(self, name):
        return {
            "name": name,
            "model": {"gpt2": {"layers": 3, "hidden": 32, "heads": 4, "vocabulary": 256}},
            "data": {"train": self.data, "format": "text", "order": "sequential"},
            "batch": {"sequences": 128, "sequence_length": 32},
            "steps": STEPS,
            "seed": 7,
            "optimizer": {"learning_rate": 1e-3, "warmup_steps": 5},
            "constraints": {"micro_batch_sizes": [8]},
            "checkpoint": {"directory": self.running.path("checkpoints"), "every_steps": CHECKPOINT_EVERY, "keep": STEPS},
        }

    def run_undisturbed(self):
        """Twice: with everything to be measured, and with profiles that are known."""
        self.start_cluster()
        self.seconds = {}
        for name in ("measuring", "measured"):
            submitted = time.monotonic()
            job = self.running.submit(self.spec("undisturbed-" + name))
            self.watch(Trial(self, job, None, None))
            self.seconds[name] = time.monotonic() - submitted
            self.expected = self.running.curve(job)
        print("undisturbed: %d steps in %.1f s, %.1f s with what was measured" %
              (STEPS, self.seconds["measuring"], self.seconds["measured"]), flush=True)

    def run(self, seed):
        """The trial's line; Failure."""
        chance = random.Random(seed)
        self.count += 1
        new = chance.random() < 0.25
        if new:
            self.start_cluster()
        fault = Fault(chance, self.seconds["measuring" if new else "measured"], self.longest_stop)
        begin = time.monotonic()
        trial = Trial(self, self.running.submit(self.spec("trial-%d" % self.count)), fault, chance)
        try:
            job = self.watch(trial)
            trial.end()
            self.check_curve(trial.job_id)
            self.check_cost(trial.job_id, job, fault)
            self.check_no_workers()
        except (Failure, AssertionError, subprocess.SubprocessError) as error:
            raise Failure("%s: %s\n%s" % (fault, error, self.evidence(trial.job_id))) from error
        return "%s: attempt %d, %d restarts, %.1f s" % (fault, job["attempt"], job["restarts"], time.monotonic() - begin)

    def watch(self, trial):
        """The job once it has ended, done. Failure as soon as something is wrong."""
        moved = time.monotonic()
        before, shown = None, None
        while True:
            if trial.act():
                moved = time.monotonic()
            job = self.look(trial.job_id)
            if job:
                trial.see(job)
                now_shown = (job["state"], job["attempt"], step_of(job), job["state_reason"])
                if now_shown != shown:
                    shown, moved = now_shown, time.monotonic()
                if before:
                    self.check_nothing_lost(before, job, trial.fault)
                before = job
                if job["state"] in ENDED:
                    if not trial.struck:
                        trial.fault.hit = "the job had ended before"
                    check(job["state"] == "done", "it is %s: %s" % (job["state"], job["state_reason"]))
                    check(step_of(job) == STEPS, "it is done at step %d" % step_of(job))
                    return job
            check(time.monotonic() - moved < WITHOUT_PROGRESS_SECONDS,
                  "nothing has moved for %d s; last seen: %s" % (WITHOUT_PROGRESS_SECONDS, shown))
            time.sleep(0.01)  # between looks, not instead of them

    def look(self, job_id):
        """None while the coordinator does not answer."""
        try:
            result = self.running.cli("status", job_id, "--output", "json", check=False, timeout=5)
        except subprocess.TimeoutExpired:
            return None
        return result.json() if result.status == 0 else None

    @staticmethod
    def check_nothing_lost(before, after, fault):
        check(int(after["checkpoint_step"]) >= int(before["checkpoint_step"]), "the checkpoint went from step %s back to %s" %
              (before["checkpoint_step"], after["checkpoint_step"]))
        check(step_of(after) >= int(before["checkpoint_step"]), "step %d was shown after a checkpoint of step %s" %
              (step_of(after), before["checkpoint_step"]))
        attempts = [(job.get("last_step") or {}).get("attempt") for job in (before, after)]
        # A coordinator that comes back may show steps a moment later than the one before it, when the agents tell them again.
        if attempts[0] is not None and attempts[0] == attempts[1] and not (fault and fault.kind == "coordinator"):
            check(step_of(after) >= step_of(before), "attempt %d went from step %d back to %d" %
                  (attempts[0], step_of(before), step_of(after)))

    def check_curve(self, job_id):
        steps = self.running.steps(job_id)
        curve = {step["step"]: step["loss"] for step in steps}
        check(len(curve) == len(steps), "a step is told twice")
        # An agent that is stopped before the first checkpoint is known takes with it what its worker has told since.
        never_told = re.findall(r"the metrics of steps (\d+) to (\d+) were never told", self.running.cli("logs", job_id).out)
        missing = {step for first, last in never_told for step in range(int(first), int(last) + 1)} - set(curve)
        check(sorted([*curve, *missing]) == list(range(1, STEPS + 1)), "the curve has steps %s" % sorted(curve))
        for step, loss in curve.items():
            expected = self.expected[step - 1][0]
            check(abs(loss - expected) <= 1e-5 * abs(expected), "the loss of step %d is %r, undisturbed %r" % (step, loss, expected))

    def check_cost(self, job_id, job, fault):
        check(job["restarts"] <= MOST_RESTARTS, "it cost %d restarts" % job["restarts"])
        if fault.kind == "coordinator":
            # A better plan, for what the steps showed, is an attempt of its own and no harm.
            better = self.running.better_plans(job_id)
            check((job["attempt"], job["restarts"]) == (1 + better, 0),
                  "a coordinator alone cost attempt %d, %d of them for a better plan, %d restarts" %
                  (job["attempt"], better, job["restarts"]))

    def check_no_workers(self):
        wait_for(lambda: "workers end after their job: %s" % programs_running("medley-worker", self.mark),
                 lambda: not programs_running("medley-worker", self.mark))

    def evidence(self, job_id):
        text = ["logs of the job:\n" + self.running.cli("logs", job_id, check=False).out[-6000:]]
        for process in [self.running.coordinator, *self.running.agents.values()]:
            text.append("%s:\n%s" % (process.name, process.log()[-2500:]))
        return "\n".join(text)


class Fault:
    """What is done to which process, when, and for how long; all of it from the seed."""

    def __init__(self, chance, undisturbed_seconds, longest_stop):
        self.kind = chance.choice(["worker", "agent", "coordinator"])
        self.node = chance.choice("abc")
        self.signal = chance.choice([signal.SIGKILL, signal.SIGSTOP])
        self.stop_seconds = chance.uniform(0.1, longest_stop) ** chance.uniform(0.5, 1)
        self.for_ever = chance.random() < 0.25
        self.restart_seconds = chance.choice([0.1, 1, 2 * LEASE_SECONDS]) * chance.uniform(0.5, 1)
        self.moment = chance.choice(["step", "step", "time", "saving"])
        self.at = {"step": chance.randint(0, STEPS * 9 // 10), "time": chance.uniform(0, 0.7 * undisturbed_seconds),
                   "saving": chance.randint(1, STEPS // CHECKPOINT_EVERY - 1) * CHECKPOINT_EVERY}[self.moment]
        self.hit = ""  # at what it was done

    def __str__(self):
        lasting = ""
        if self.signal == signal.SIGSTOP:
            lasting = " for ever" if self.for_ever else " for %.1f s" % self.stop_seconds
        where = self.kind if self.kind == "coordinator" else "%s of %s" % (self.kind, self.node)
        moment = {"step": "step %s", "time": "%.1f s", "saving": "the checkpoint of step %s"}[self.moment] % self.at
        return "%s%s to the %s at %s%s" % (self.signal.name, lasting, where, moment, self.hit and " (%s)" % self.hit)


class Trial:
    """One job and what is done to it. `fault` None: nothing."""

    def __init__(self, trials, job_id, fault, chance):
        self.trials, self.running, self.job_id, self.fault, self.chance = trials, trials.running, job_id, fault, chance
        self.submitted = time.monotonic()
        self.job = {}
        self.struck = fault is None
        self.due = []  # (moment, what to do)
        self.stopped = None
        self.folder = os.path.join(self.running.path("checkpoints"), job_id)

    def see(self, job):
        self.job = job

    def act(self):
        """Whether something was done."""
        if not self.struck and self.now():
            self.strike()
            return True
        ready = [one for one in self.due if one[0] <= time.monotonic()]
        self.due = [one for one in self.due if one not in ready]
        for _, act in ready:
            act()
        return bool(ready)

    def now(self):
        if self.fault.moment == "step":
            return bool(self.job) and step_of(self.job) >= self.fault.at
        if self.fault.moment == "time":
            return time.monotonic() - self.submitted >= self.fault.at
        folder = os.path.join(self.folder, "step-%08d" % self.fault.at)
        return os.path.isdir(folder) or step_of(self.job) > self.fault.at

    def victim(self):
        """A process id. A worker of another node if the chosen one has none; without any, the node's agent."""
        fault = self.fault
        if fault.kind == "coordinator":
            return self.running.coordinator.pid
        if fault.kind == "worker":
            with_workers = {name: self.running.workers(name) for name in self.running.agents}
            with_workers = {name: pids for name, pids in with_workers.items() if pids}
            if with_workers:
                if fault.node not in with_workers:
                    fault.node = self.chance.choice(sorted(with_workers))
                return self.chance.choice(with_workers[fault.node])
            fault.kind = "agent"  # there is no worker now
        return self.running.agents[fault.node].pid

    def strike(self):
        fault, pid = self.fault, self.victim()
        self.struck = True
        fault.hit = "%s, step %d" % (self.job["state"] if self.job else "submitted", step_of(self.job))
        workers = self.running.workers(fault.node) if fault.kind == "agent" else []
        try:
            os.kill(pid, fault.signal)
        except ProcessLookupError:
            fault.hit += ", it had just ended"
            return
        struck = time.monotonic()
        if fault.signal == signal.SIGKILL:
            if fault.kind != "worker":
                self.due.append((struck + fault.restart_seconds, self.restart))
            return
        self.stopped = pid
        if not fault.for_ever:
            self.due.append((struck + fault.stop_seconds, self.go_on))
        elif fault.kind == "coordinator":
            self.due.append((struck + fault.stop_seconds, self.replace))  # without it nobody learns of the end
        if fault.kind == "agent" and (fault.for_ever or fault.stop_seconds > 4 * LEASE_SECONDS):
            self.due.append((struck + 3 * LEASE_SECONDS, lambda: self.check_ended(workers)))

    def restart(self):
        if self.fault.kind == "coordinator":
            self.running.coordinator.child.wait(timeout=20)
            self.running.start_coordinator()
        else:
            self.running.agents[self.fault.node].child.wait(timeout=20)
            self.running.start_agent(self.fault.node, self.trials.devices[self.fault.node])

    def go_on(self):
        pid, self.stopped = self.stopped, None
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # its agent has killed it meanwhile

    def replace(self):
        """What is stopped for ever is killed and started again."""
        pid, self.stopped = self.stopped, None
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.fault.kind != "worker":
            self.restart()

    @staticmethod
    def check_ended(workers):
        """While their agent is stopped: nothing lets it go on meanwhile."""
        wait_for(lambda: "workers %s end, whose agent is stopped" % [pid for pid in workers if is_alive(pid)],
                 lambda: not any(map(is_alive, workers)))

    def end(self):
        """Everything runs again."""
        while self.due:
            for at, act in sorted(self.due, key=lambda one: one[0]):
                wait_for("what is due", lambda: time.monotonic() >= at, 2 * self.trials.longest_stop + 60)
                act()
                self.due = [one for one in self.due if one[1] is not act]
        if self.stopped is not None:
            self.replace()
        self.running.wait_for_nodes(*self.trials.devices)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first trial; each next one has one more. Default: random")
    parser.add_argument("--longest-stop", type=float, metavar="SECONDS",
                        help="that a stopped process is stopped for; default: 12 with three trials or fewer, otherwise 120")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else cluster.random_seed().randrange(1 << 31)
    trials = Trials(options.longest_stop or (12 if options.trials <= 3 else 120))
    failed = []
    try:
        trials.run_undisturbed()
        for number in range(options.trials):
            name = "trial %d of %d, --seed %d" % (number + 1, options.trials, seed + number)
            try:
                print("%s: %s" % (name, trials.run(seed + number)), flush=True)
            except Exception as error:
                failed.append(seed + number)
                print("%s: FAILED: %s" % (name, error), flush=True)
                if not isinstance(error, Failure):
                    traceback.print_exc()
                trials.start_cluster()
    finally:
        trials.close()
    print("%d trials, %d failed%s" % (options.trials, len(failed), ": seeds " + ", ".join(map(str, failed)) if failed else ""))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
