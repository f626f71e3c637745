"""A Medley cluster of real processes on this machine: a coordinator, agents, and the command line to drive them.

Nothing here waits for a fixed time to pass: every wait is for a condition, with a deadline that only a machine misses on which
nothing gets on. Children live in process groups of their own and die with this process.
"""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import run_cases

BINARIES = os.environ["MEDLEY_BINARIES"]
ENDED = ("done", "failed", "cancelled")
LONG_STEP_SECONDS = 0.06

# Kills what it starts when this process ends. A function that runs between fork and exec would do that, too, but Python then
# forks in earnest, and a channel of grpcio that is closing at that moment aborts the process.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]


def program(name):
    return os.path.join(BINARIES, name)


def wait_for(what, condition, seconds=120):
    """The first truthy value of condition(); AssertionError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("not within %g s: %s" % (seconds, what() if callable(what) else what))
        time.sleep(0.02)  # between looks, not instead of them


def write_file(path, content):
    with open(path, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    return path


def write_spec(path, spec):
    """JSON is YAML."""
    return write_file(path, json.dumps(spec, indent=1) + "\n")


def random_seed():
    """MEDLEY_TEST_SEED to repeat a run; printed, so that it can be."""
    seed = int(os.environ.get("MEDLEY_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print("MEDLEY_TEST_SEED=%d" % seed, flush=True)
    return random.Random(seed)


def training_text(size=200_000, seed=1):
    """Words of a small made-up language: learnable, and the same everywhere."""
    source = random.Random(seed)
    words = ["".join(source.choice("aeiourstlnm") for _ in range(source.randint(2, 7))) for _ in range(60)]
    text = []
    while size > 0:
        word = source.choice(words) + source.choice("    .\n")
        text.append(word)
        size -= len(word)
    return "".join(text)


class CommandResult:
    def __init__(self, arguments, status, out, err):
        self.arguments, self.status, self.out, self.err = arguments, status, out, err

    def __str__(self):
        return "%s: status %d\n%s%s" % (" ".join(self.arguments), self.status, self.out, self.err)

    def json(self):
        return json.loads(self.out)


class Process:
    """A child in a process group of its own, logging to a file."""

    def __init__(self, name, arguments, log_file, **options):
        self.name, self.log_file = name, log_file
        with open(log_file, "ab") as log:
            self.child = subprocess.Popen(WITH_PARENT + arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          start_new_session=True, **options)

    @property
    def pid(self):
        return self.child.pid

    def log(self):
        with open(self.log_file, errors="replace") as file:
            return file.read()

    def listens_at(self):
        """By its newest log line that says so; None before."""
        found = re.findall(r" listens at (\S+)", self.log())
        return found[-1] if found else None

    def children(self):
        """Process ids, ascending."""
        pids = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    text = file.read()
            except OSError:
                continue
            state, parent = text[text.rindex(")") + 2:].split()[:2]
            if int(parent) == self.pid and state not in "ZX":
                pids.append(int(text.split()[0]))
        return sorted(pids)

    def kill(self, number=signal.SIGKILL):
        """This process alone; waits for its end where the signal ends it."""
        if self.child.poll() is None:
            os.kill(self.pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return self.child.wait(timeout=60)

    def kill_group(self):
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass
        self.child.wait(timeout=60)


def tcp_connections(pid):
    """How many established TCP connections a process has."""
    established = set()
    for table in ("tcp", "tcp6"):
        if not os.path.exists("/proc/%d/net/%s" % (pid, table)):
            continue
        with open("/proc/%d/net/%s" % (pid, table)) as file:
            for fields in map(str.split, file.readlines()[1:]):
                if fields[3] == "01":
                    established.add("socket:[%s]" % fields[9])
    count = 0
    for descriptor in glob.glob("/proc/%d/fd/*" % pid):
        try:
            count += os.readlink(descriptor) in established
        except OSError:
            pass
    return count


def cpu_device(variant, core=0, name="cpu0", memory="512MiB"):
    return {"name": name, "backend": "cpu", "variant": variant, "cores": [core], "memory_bytes": memory}


def reference_device(core=0, name="ref0", memory="512MiB"):
    return {"name": name, "backend": "reference", "cores": [core], "memory_bytes": memory}


def cpu_variants():
    """Of this processor, the most capable first, without those that differ in bf16 alone."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), "").split()
    needs = [("avx512", ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")), ("avx2", ("avx2", "fma")),
             ("sse41", ("sse4_1",))]
    return [name for name, wanted in needs if all(flag in flags for flag in wanted)]


def core(index):
    """The cores that this process may use, over and over."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[index % len(allowed)]


def fast_and_slow():
    """Two CPU devices as unlike as this machine allows, on cores of their own if it has two."""
    variants = cpu_variants()
    return cpu_device(variants[0], core(0)), cpu_device(variants[-1], core(1))


def run_command(arguments, timeout=180, environment=None):
    done = subprocess.run(WITH_PARENT + arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                          env={**os.environ, **(environment or {})})
    return CommandResult([os.path.basename(arguments[0])] + arguments[1:], done.returncode,
                         done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def read_when_there(file, process):
    """What `process` has written into the file, once it has."""
    def is_there():
        if process.child.poll() is not None:
            raise AssertionError("%s ended:\n%s" % (process.name, process.log()))
        return os.path.exists(file)

    wait_for(lambda: "%s is there:\n%s" % (file, process.log()), is_there)
    with open(file) as content:
        return content.read().strip()


class Cluster:
    """A coordinator and agents under one directory. Use as a context manager: everything is killed at its end. The lease is
    longer than a busy machine keeps an agent from running; shorter ones are for tests in which a node is lost. `pages`: the
    coordinator serves HTTP at `site`."""

    def __init__(self, directory, lease_seconds=10, pages=False):
        self.directory = directory
        self.state_directory = os.path.join(directory, "state")
        self.lease_seconds = lease_seconds
        self.pages = pages
        self.address = self.site = None  # "host:port"
        self.coordinator = None
        self.agents = {}
        self.folders = {}  # by program, where it is if not beside the others: for what is started from now on
        self.call_options = []  # of all commands, as ["--timeout", "60"]
        self._coordinators = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill_all()

    def path(self, name):
        return os.path.join(self.directory, name)

    def program(self, name):
        return os.path.join(self.folders.get(name, BINARIES), name)

    # Processes.

    def start_coordinator(self, listen_address=None, **more):
        """At any free port; a later one listens where the first did, so that agents and browsers find it. `more`: of its
        configuration."""
        self._coordinators += 1
        files = {name: self.path("%s.%d" % (name, self._coordinators)) for name in ("address_file", "http_address_file")}
        pages = {"http_address": self.site or "127.0.0.1:0", "http_address_file": files["http_address_file"]} if self.pages else {}
        config = write_spec(self.path("coordinator.yaml"), {
            "listen_address": listen_address or self.address or "127.0.0.1:0",
            "address_file": files["address_file"],
            "state_directory": self.state_directory,
            "lease_seconds": self.lease_seconds, **pages, **more})
        self.coordinator = Process("coordinator", [self.program("medley-coordinator"), "--config", config],
                                   self.path("coordinator.log"))
        self.address = read_when_there(files["address_file"], self.coordinator)
        if self.pages:
            self.site = read_when_there(files["http_address_file"], self.coordinator)
        return self.coordinator

    def start_agent(self, name, devices, links="automatic", **more):
        config = write_spec(self.path(name + ".yaml"), {
            "name": name,
            "coordinator_address": self.address,
            "listen_address": "127.0.0.1:0",
            "devices": devices,
            "links": links, **more})
        log_file = self.path(name + ".log")
        if os.path.exists(log_file):
            os.rename(log_file, log_file + ".before")
        self.agents[name] = Process(name, [self.program("medley-agent"), "--config", config], log_file)
        return self.agents[name]

    def start(self, devices, links="automatic", **more):
        """A coordinator and, by name, an agent with each of the device lists; waits for all to be registered. `more`: of each
        agent's configuration."""
        self.start_coordinator()
        for name, its_devices in devices.items():
            self.start_agent(name, its_devices, links, **more)
        self.wait_for_nodes(*devices)
        return self

    def wait_for_nodes(self, *names):
        """Until these agents' processes, not ones before them under the same names, hold their leases."""
        def alive():
            for name in names:
                if self.agents[name].child.poll() is not None:
                    raise AssertionError("agent %s ended:\n%s" % (name, self.agents[name].log()))
            registered = {(node["name"], node["agent_address"]) for node in self.nodes() if node["alive"]}
            return {(name, self.agents[name].listens_at()) for name in names} <= registered

        wait_for("nodes %s are alive" % ", ".join(names), alive)

    def workers(self, agent):
        return self.agents[agent].children()

    def kill_all(self):
        for process in [self.coordinator, *self.agents.values()]:
            if process is not None:
                process.kill_group()

    # The command line.

    def environment(self):
        return {"MEDLEY_COORDINATOR": self.address or ""}

    def cli(self, *arguments, check=True, timeout=180):
        result = run_command([self.program("medley"), *self.call_options, *arguments], timeout, self.environment())
        if check and result.status != 0:
            raise AssertionError(str(result))
        return result

    def json(self, *arguments, **options):
        return self.cli(*arguments, "--output", "json", **options).json()

    def nodes(self):
        return self.json("nodes").get("nodes", [])

    def submit(self, spec, *options):
        """The job's id."""
        return self.json("submit", write_spec(self.path(spec["name"] + ".job.yaml"), spec), *options)["id"]

    def job(self, job_id):
        return self.json("status", job_id)

    def steps(self, job_id):
        return self.json("steps", job_id).get("steps", [])

    def curve(self, job_id):
        """By step: loss and gradient norm. Every step must be there once, in order."""
        steps = self.steps(job_id)
        numbers = [step["step"] for step in steps]
        if numbers != list(range(1, len(steps) + 1)):
            raise AssertionError("steps are not 1, 2, 3 ...: %s" % numbers)
        return [(step["loss"], step["gradient_norm"]) for step in steps]

    def better_plans(self, job_id):
        """How often it went on under a better plan, each time in an attempt of its own: a job whose steps are long is given
        devices that are free."""
        return self.cli("logs", job_id).out.count("recovering: planned anew: ")

    def wait_for_job(self, job_id, what, condition, seconds=240):
        """The job as it is once condition(job) holds."""
        seen = {}

        def look():
            result = self.cli("status", job_id, "--output", "json", check=False)
            if result.status != 0 and any(code in result.err for code in ('"unavailable"', '"deadline_exceeded"')):
                return None  # a coordinator that is too busy to answer now is asked again
            if result.status != 0:
                raise AssertionError(str(result))
            seen.update(job=result.json())
            return condition(seen["job"]) and seen["job"]

        def failure():
            job = seen.get("job", {})
            return "%s of %s; it is %s: %s\n%s" % (what, job_id, job.get("state"), job.get("state_reason"),
                                                  self.cli("logs", job_id, check=False).out[-4000:])

        return wait_for(failure, look, seconds)

    def wait_for_state(self, job_id, state, seconds=240):
        """AssertionError as soon as the job ended in another state."""
        def reached(job):
            if job["state"] in ENDED and job["state"] != state:
                raise AssertionError("%s is %s, not %s: %s\n%s" % (job_id, job["state"], state, job["state_reason"],
                                                                  self.cli("logs", job_id).out[-4000:]))
            return job["state"] == state

        return self.wait_for_job(job_id, state, reached, seconds)

    def wait_for_step(self, job_id, step, seconds=240):
        def reached(job):
            if job["state"] in ENDED:
                raise AssertionError("%s ended before step %d: %s, %s" % (job_id, step, job["state"], job["state_reason"]))
            return (job.get("last_step") or {}).get("step", 0) >= step

        return self.wait_for_job(job_id, "step %d" % step, reached, seconds)


def unit(device, first, end):
    return {"devices": [device], "blocks": [{"first": first, "end": end}]}


def route(units, micro_batches, micro_batch=None):
    size = {} if micro_batch is None else {"micro_batch_sequences": micro_batch}
    return {"units": units, "micro_batches": micro_batches, **size}


class ClusterTest(unittest.TestCase):
    """A fresh directory for each class, with the training text in it."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix=cls.__name__ + ".", dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.data = write_file(os.path.join(cls.directory, "train.txt"), training_text())

    @classmethod
    def new_cluster(cls, **options):
        """Killed at the end of the class at the latest."""
        cluster = Cluster(tempfile.mkdtemp(prefix="cluster.", dir=cls.directory), **options)
        cls.addClassCleanup(cluster.kill_all)
        return cluster

    @classmethod
    def spec(cls, name, steps=20, **more):
        """Three layers of 32: 5 blocks, 8 windows of 32 tokens in a step."""
        return {
            "name": name,
            "model": {"gpt2": {"layers": 3, "hidden": 32, "heads": 4, "vocabulary": 256}},
            "data": {"train": cls.data, "format": "text", "order": "sequential"},
            "batch": {"sequences": 8, "sequence_length": 32},
            "steps": steps,
            "precision": "f32",
            "seed": 7,
            "optimizer": {"learning_rate": 1e-3, "warmup_steps": 5},
            **more,
        }

    @staticmethod
    def sequences_of_long_steps(running, calibration):
        """A global batch whose steps take as long as some commands do, however fast this machine is, so that there is time to do
        harm between two of them; by a job that ends soon, in proportion to its batch."""
        sequences = calibration["batch"]["sequences"]
        job = running.submit(calibration)
        running.wait_for_state(job, "done")
        seconds = min(step["step_seconds"] for step in running.steps(job))  # of when nothing else kept the machine busy
        while seconds < LONG_STEP_SECONDS and sequences < 8192:
            sequences, seconds = 2 * sequences, 2 * seconds
        print("steps of %d sequences take %.0f ms or more" % (sequences, 1e3 * seconds), flush=True)
        return sequences

    def assert_same_curves(self, expected, actual, loss_tolerance=1e-5, norm_tolerance=1e-4, what=""):
        self.assertEqual(len(expected), len(actual), what)
        for step, ((loss, norm), (other_loss, other_norm)) in enumerate(zip(expected, actual), 1):
            self.assertLessEqual(abs(other_loss - loss), loss_tolerance * abs(loss), "%s: loss of step %d" % (what, step))
            self.assertLessEqual(abs(other_norm - norm), norm_tolerance * abs(norm),
                                 "%s: gradient norm of step %d" % (what, step))


def main():
    run_cases.main()
