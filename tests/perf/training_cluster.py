"""A cluster on this machine that runs training jobs one after another, for benchmarks."""
import json
import os
import re
import signal
import subprocess
import sys
import time


class Cluster:
    """nodes: {name: [device, ...]}, as cpu_device() and emulated_device() make them."""

    look_seconds = 4  # between looks at a job, which take some hundredths of a second of a core that may be computing

    def __init__(self, binaries, directory, nodes):
        self.binaries, self.directory = binaries, directory
        os.makedirs(directory, exist_ok=True)
        self.devices = []
        agents = []
        for node, devices in nodes.items():
            named = [dict(device, name=f"{device['backend']}{i}") for i, device in enumerate(devices)]
            agents.append({"name": node, "devices": named})
            self.devices += [f"{node}/{device['name']}" for device in named]
        path = self.write("cluster.yaml", json.dumps({"coordinator": {"listen_address": "127.0.0.1:0"}, "agents": agents}))
        self.process = subprocess.Popen([f"{binaries}/medley", "up", "--config", path, "--directory", f"{directory}/up"],
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("Ready"):
                break
        else:
            sys.exit("the cluster did not start")
        with open(f"{directory}/up/coordinator.address") as file:
            self.environment = dict(os.environ, MEDLEY_COORDINATOR=file.read().strip())

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def medley(self, *arguments, output="json"):
        run = subprocess.run([f"{self.binaries}/medley", "--timeout", "600", "--output", output, *arguments],
                             env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout) if output == "json" else run.stdout

    def submit(self, name, text):
        """The job's id."""
        job = self.medley("submit", self.write(f"{name}.yaml", text))
        return job.get("job", job)["id"]

    def wait(self, name, job):
        """Until it ends; (predicted, measured) seconds of a step."""
        while True:
            state = self.medley("status", job)
            state = state.get("job", state)
            if state["state"] in ("done", "failed", "cancelled"):
                break
            time.sleep(self.look_seconds)
        if state["state"] != "done":
            sys.exit(f"{name}: {state['state_reason']}")
        return state["plan"]["predicted_step_seconds"], state["measured_step_seconds"], state

    def run(self, name, text):
        """Runs a job to its end; (predicted, measured) seconds of a step."""
        return self.wait(name, self.submit(name, text))

    def plan(self, name, text):
        """The coordinator's report of the plan of a job that is not run."""
        return self.medley("plan", self.write(f"{name}.yaml", text))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def cpu_device(variant, core):
    return {"backend": "cpu", "variant": variant, "cores": [core], "memory_bytes": "6GiB"}


def emulated_device(profile):
    """profile: path of a file."""
    return {"backend": "emulated", "profile": profile}


def opencl_device(core):
    return {"backend": "opencl", "cores": [core], "memory_bytes": "2GiB"}


def cpu_variants():
    """Of this processor, the most capable first."""
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*:(.*)$", file.read(), re.M).group(1).split()
    return [v for v, flag in (("amx", "amx_bf16"), ("avx512", "avx512bw"), ("avx2", "avx2"), ("sse41", "sse4_1")) if flag in flags]


def best_variants():
    return cpu_variants()[:2]
