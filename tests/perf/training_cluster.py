"""A cluster on this machine that runs training jobs one after another, for benchmarks."""
import json
import os
import re
import signal
import subprocess
import sys
import time


class Cluster:
    """nodes: {name: [(instruction set, core), ...]}; the devices of a node are cpu0, cpu1, ..."""

    def __init__(self, binaries, directory, nodes):
        self.binaries, self.directory = binaries, directory
        os.makedirs(directory, exist_ok=True)
        self.devices = [f"{node}/cpu{i}" for node, cores in nodes.items() for i in range(len(cores))]
        config = "coordinator: {listen_address: 127.0.0.1:0}\nagents:\n"
        for node, cores in nodes.items():
            config += f"  - name: {node}\n    devices:\n"
            for i, (variant, core) in enumerate(cores):
                config += (f"      - {{name: cpu{i}, backend: cpu, variant: {variant}, cores: [{core}], "
                           "memory_bytes: 6GiB}\n")
        path = self.write("cluster.yaml", config)
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

    def medley(self, *arguments):
        run = subprocess.run([f"{self.binaries}/medley", "--timeout", "600", "--output", "json", *arguments],
                             env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(run.stdout)

    def run(self, name, text):
        """Runs a job to its end; (predicted, measured) seconds of a step."""
        job = self.medley("submit", self.write(f"{name}.yaml", text))
        job = job.get("job", job)
        while True:
            state = self.medley("status", job["id"])
            state = state.get("job", state)
            if state["state"] in ("done", "failed", "cancelled"):
                break
            time.sleep(4)  # a look takes some hundredths of a second of a core that may be computing
        if state["state"] != "done":
            sys.exit(f"{name}: {state['state_reason']}")
        return state["plan"]["predicted_step_seconds"], state["measured_step_seconds"], state

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def best_variants():
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*:(.*)$", file.read(), re.M).group(1).split()
    have = [v for v, flag in (("amx", "amx_bf16"), ("avx512", "avx512bw"), ("avx2", "avx2"), ("sse41", "sse4_1")) if flag in flags]
    return have[:2]
