#!/usr/bin/env python3
"""From a job's submission to its first step, over TLS, on loopback: what the control plane adds to training.

Starts a coordinator and an agent with certificates, has one job measured and planned, and submits it again and again, whose devices and
links are known then. Prints `key value` lines, in seconds, of jobs that were submitted one after another.
"""
import argparse
import json
import os
import subprocess
import time

JOBS = 12


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


class Site:
    def __init__(self, binaries, directory):
        self.binaries, self.directory = binaries, directory
        os.makedirs(directory)
        self.run("certs", "init", self.path("authority"))
        for role, name in [("coordinator", "coordinator"), ("agent", "node"), ("admin", "user")]:
            self.run("certs", "issue", self.path(role), "--authority", self.path("authority"), "--role", role, "--name", name)
        self.daemons = [self.start("medley-coordinator", "coordinator", {
            "listen_address": "127.0.0.1:0", "address_file": self.path("address"), "state_directory": self.path("state"),
            "settle_seconds": 0})]
        while not os.path.exists(self.path("address")):
            time.sleep(0.02)
        with open(self.path("address")) as file:
            address = file.read().strip()
        cores = sorted(os.sched_getaffinity(0))
        self.daemons.append(self.start("medley-agent", "agent", {
            "name": "node", "coordinator_address": address, "listen_address": "127.0.0.1:0",
            "devices": [{"name": f"cpu{i}", "backend": "cpu", "cores": [core], "memory_bytes": "512MiB"} for i, core in enumerate(cores[:2])]}))
        self.environment = dict(os.environ, MEDLEY_COORDINATOR=address, MEDLEY_CERTIFICATES=self.path("admin"))
        while not json.loads(self.run("nodes", "--output", "json"))["nodes"]:
            time.sleep(0.05)

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, program, role, config):
        folder = self.path(role)
        config["tls"] = {"certificate": f"{folder}/certificate.pem", "key": f"{folder}/key.pem", "authority": f"{folder}/authority.pem"}
        with open(self.path(role + ".yaml"), "w") as file:
            json.dump(config, file)
        with open(self.path(role + ".log"), "w") as log:
            return subprocess.Popen([f"{self.binaries}/{program}", "--config", self.path(role + ".yaml")], stdout=log, stderr=log)

    def run(self, *arguments):
        return subprocess.run([f"{self.binaries}/medley", *arguments], env=getattr(self, "environment", None), check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--directory", required=True)
    arguments = parser.parse_args()
    site = Site(arguments.binaries, arguments.directory)
    with open(site.path("train.txt"), "w") as file:
        file.write("words of a small language\n" * 2000)
    with open(site.path("job.yaml"), "w") as file:
        json.dump({"name": "small", "model": {"gpt2": {"layers": 2, "hidden": 64, "heads": 2, "vocabulary": 256}},
                   "data": {"train": site.path("train.txt"), "format": "text"}, "batch": {"sequences": 4, "sequence_length": 32},
                   "steps": 3, "optimizer": {"learning_rate": 1e-3}}, file)
    seconds = {"submit_to_first_step": [], "submitted_to_launching": [], "launching_to_first_step": []}
    try:
        for number in range(JOBS + 1):
            job = site.run("submit", site.path("job.yaml")).strip()
            site.run("watch", job)
            status = json.loads(site.run("status", job, "--output", "json"))
            first = json.loads(site.run("steps", job, "--output", "json"))["steps"][0]["at_seconds"]
            if number == 0:
                continue  # the one that is measured for
            waited = sum(past["seconds"] for past in status["past"] if past["state"] in ("queued", "profiling", "planning"))
            seconds["submit_to_first_step"].append(first - status["submitted_at_seconds"])
            seconds["submitted_to_launching"].append(waited)
            seconds["launching_to_first_step"].append(first - status["submitted_at_seconds"] - waited)
    finally:
        site.stop()
    for what, values in seconds.items():
        print(f"{what}_seconds_p50 {quantile(values, 0.5):.3f}\n{what}_seconds_max {max(values):.3f}")


main()
