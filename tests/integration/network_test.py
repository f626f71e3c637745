"""Medley over several hosts, which are network namespaces of this machine: two sites of two, joined by a slow
link."""
import os
import time
import unittest

import cluster
import network_hosts
from cluster import ClusterTest, Process, core, cpu_device, program, route, run_command, unit, wait_for, write_spec

LEASE_SECONDS = 3
STEPS = 60


class NetworkCluster(cluster.Cluster):
    """A coordinator on the first host, whose command line is used there too, and an agent on each."""

    def __init__(self, directory, hosts, **options):
        super().__init__(directory, **options)
        self.hosts = hosts
        self.first = hosts.hosts[0]

    def start_coordinator(self):
        address_file = self.path("address")
        config = write_spec(self.path("coordinator.yaml"), {
            "listen_address": self.first.address + ":0", "address_file": address_file,
            "state_directory": self.state_directory, "lease_seconds": self.lease_seconds, "insecure": True})
        self.coordinator = Process("coordinator", self.first.command([program("medley-coordinator"), "--config", config]),
                                   self.path("coordinator.log"))
        wait_for(lambda: "the coordinator listens:\n" + self.coordinator.log(), lambda: os.path.exists(address_file))
        with open(address_file) as file:
            self.address = file.read().strip()

    def start_agent(self, name, devices, links="automatic"):
        host = self.hosts[name]
        config = write_spec(self.path(name + ".yaml"), {
            "name": name, "coordinator_address": self.address, "listen_address": host.address + ":0", "devices": devices,
            "network_devices": [host.device], "links": links, "insecure": True})
        self.agents[name] = Process(name, host.command([program("medley-agent"), "--config", config]),
                                    self.path(name + ".log"))

    def cli(self, *arguments, check=True, timeout=180):
        result = run_command(self.first.command([program("medley"), *arguments]), timeout, self.environment())
        if check and result.status != 0:
            raise AssertionError(str(result))
        return result


class NetworkTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.random = cluster.random_seed()
        try:
            cls.hosts = network_hosts.NetworkHosts([2, 2], megabits_per_second=1000)
        except network_hosts.NotPermitted as why:
            raise unittest.SkipTest(str(why))
        cls.addClassCleanup(cls.hosts.remove)
        variant = cluster.cpu_variants()[0]
        devices = {host.name: [cpu_device(variant, core(index))] for index, host in enumerate(cls.hosts.hosts)}
        cls.running = NetworkCluster(cls.directory + "/cluster", cls.hosts, lease_seconds=LEASE_SECONDS)
        os.makedirs(cls.running.directory)
        cls.addClassCleanup(cls.running.kill_all)
        cls.running.start(devices)

    def setUp(self):
        """All hosts are on the network, and their agents alive."""
        for host in self.hosts.hosts:
            self.hosts.join(host.name)
        wait_for("all nodes are alive", lambda: all(node["alive"] for node in self.running.nodes()))
        self.running.wait_for_nodes(*(host.name for host in self.hosts.hosts))

    def run_to_the_end(self, spec):
        job = self.running.submit(spec)
        self.running.wait_for_state(job, "done")
        return self.running.curve(job)

    def test_any_plan_over_four_hosts_trains_as_one_host_does(self):
        def plan(units, routes):
            return {"micro_batch_sequences": 2, "units": units, "routes": routes}

        alone = self.run_to_the_end(self.spec("alone", plan=plan([unit("a0/cpu0", 0, 5)], [route([0], 4)])))
        plans = {
            "pipeline": plan([unit("b1/cpu0", 0, 1), unit("a1/cpu0", 1, 2), unit("b0/cpu0", 2, 3), unit("a0/cpu0", 3, 5)],
                             [route([0, 1, 2, 3], 4)]),
            "data-parallel": plan([unit(name + "/cpu0", 0, 5) for name in ("a0", "a1", "b0", "b1")],
                                  [route([index], 1) for index in range(4)]),
            "both": plan([unit("a0/cpu0", 0, 3), unit("a1/cpu0", 3, 5), unit("b0/cpu0", 0, 2), unit("b1/cpu0", 2, 5)],
                         [route([0, 1], 3), route([2, 3], 1)]),
        }
        for name, pinned in plans.items():
            with self.subTest(plan=name):
                self.assert_same_curves(alone, self.run_to_the_end(self.spec(name, plan=pinned)), what=name)

    def long_spec(self, name, sequences, steps=STEPS, **more):
        """Not on the first host, which has the coordinator."""
        return self.spec(name, steps=steps, **{
            "batch": {"sequences": sequences, "sequence_length": 32},
            "checkpoint": {"directory": self.running.path("checkpoints"), "every_steps": 10, "keep": 6},
            "constraints": {"micro_batch_sizes": [8], "devices": ["a1/cpu0", "b0/cpu0", "b1/cpu0"]},
            **more})

    def used_hosts(self, job):
        units = (job.get("plan") or {}).get("plan", {}).get("units", [])
        return sorted({device.split("/")[0] for u in units for device in u["devices"]})

    def test_a_host_that_vanishes_is_planned_around_and_comes_back_without_harm(self):
        sequences = self.sequences_of_long_steps(self.running, self.long_spec("calibration", 128, steps=12))
        expected = self.run_to_the_end(self.long_spec("undisturbed", sequences))
        job = self.running.submit(self.long_spec("vanishes", sequences))
        self.running.wait_for_step(job, self.random.randint(12, STEPS // 2))
        victim = self.random.choice(self.used_hosts(self.running.job(job)))
        self.hosts.cut(victim)
        vanished = time.monotonic()

        def goes_on(j):
            return j["attempt"] >= 2 and j["state"] in ("running", "done") and \
                victim not in self.used_hosts(j) and self.used_hosts(j)

        again = self.running.wait_for_job(job, "a plan without " + victim, goes_on)
        print("runs on %s %.1f s after %s vanished from %s" % (self.used_hosts(again), time.monotonic() - vanished, victim,
                                                              "training"), flush=True)
        # Back with what it had of the old attempt, while the new one runs.
        self.hosts.join(victim)
        done = self.running.wait_for_state(job, "done")
        log = self.running.cli("logs", job).out
        better = self.running.better_plans(job)
        self.assertEqual((done["restarts"], done["attempt"]), (1, 2 + better), log)
        self.assert_same_curves(expected, self.running.curve(job), norm_tolerance=1e-2)
        recovering = [line for line in log.splitlines() if "recovering: " in line]
        self.assertEqual(len(recovering), 1 + better, log)
        lost = [line for line in recovering if "recovering: planned anew: " not in line]
        self.assertIn(victim, lost[0])
        print(lost[0], flush=True)
        wait_for("%s has left its old attempt" % victim, lambda: self.running.workers(victim) == [])
        wait_for("%s is back" % victim,
                 lambda: any(node["name"] == victim and node["alive"] for node in self.running.nodes()))


if __name__ == "__main__":
    cluster.main()
