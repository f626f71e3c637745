"""What who keeps a cluster going asks of it."""
import glob
import json
import os
import struct
import tarfile

import cluster
from cluster import ClusterTest, core, cpu_device, cpu_variants, route, unit, wait_for, write_spec

RUNS_FOR_EVER = 1_000_000


def scalars(path):
    """Of a file of events: (step, name, value) of each, and the steps from which on earlier ones are dropped."""
    with open(path, "rb") as file:
        data = file.read()
    found, dropped, place = [], [], 0
    while place < len(data):
        length, = struct.unpack_from("<Q", data, place)
        fields = dict(fields_of(data[place + 12:place + 12 + length]))
        place += length + 16
        if 7 in fields:
            dropped.append(fields[2])
        for _, value in fields_of(fields.get(5, b"")):
            named = dict(fields_of(value))
            found.append((fields[2], named[1].decode(), struct.unpack("<f", named[2])[0]))
    return found, dropped


def fields_of(message):
    """Number and value of each field of a protobuf message."""
    place = 0

    def varint():
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[place:place + size]
        place += size


class OperatorTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        variant = cpu_variants()[0]
        cls.running = cls.new_cluster().start({"a": [cpu_device(variant, core(0))], "b": [cpu_device(variant, core(1))]})

    def plan(self):
        return {"units": [unit("a/cpu0", 0, 3), unit("b/cpu0", 3, 5)], "routes": [route([0, 1], 2, 4)]}

    def finished(self, name, **more):
        job = self.running.submit(self.spec(name, **more))
        self.running.wait_for_state(job, "done")
        return job

    def test_nodes_are_checked(self):
        checks = {node["node"]: {one["subject"]: one for one in node["findings"]}
                  for node in self.running.json("check", "--directory", self.directory)["nodes"]}
        self.assertEqual(set(checks), {"a", "b"})
        for found in checks.values():
            for subject in ("version", "device cpu0", "open files", "clock"):
                self.assertNotEqual(found[subject]["level"], "error", found)
            self.assertIn("MB/s", found["directory " + self.directory]["text"])
        wrong = self.running.cli("check", "a", "--directory", "/nowhere/at/all", check=False)
        self.assertEqual(wrong.status, 1)
        self.assertIn("is not there", wrong.out)
        self.assertIn("not fit for jobs: a", wrong.err)
        self.assertIn("no node is named c", self.running.cli("check", "c", check=False).err)

    def test_stacks_of_a_running_job_logs_of_a_device_and_a_bundle_of_it_all(self):
        job = self.running.submit(self.spec("runs", steps=RUNS_FOR_EVER, plan=self.plan()))
        self.running.wait_for_state(job, "running")
        stacks = self.running.json("debug", "stacks", job)["tasks"]
        self.assertEqual([task["device"] for task in stacks], ["a/cpu0", "b/cpu0"])
        for task in stacks:
            self.assertIn("medley::AgentWatch::Receive", task["text"], task)
            self.assertIn("runs", task["text"])
        self.assertIn("rank 1, b/cpu0", self.running.cli("debug", "stacks", job).out)

        wait_for("the workers say something", lambda: self.running.json("logs", job, "--device", "a").get("lines"))
        lines = self.running.json("logs", job, "--device", "a")["lines"]
        self.assertEqual({line["source"].split("/")[0] for line in lines}, {"a"})
        self.assertFalse(self.running.json("logs", job, "--device", "nobody").get("lines"))

        file = os.path.join(self.directory, "bundle.tar.gz")
        self.running.cli("debug", "bundle", "-o", file, "--job", job, timeout=300)
        with tarfile.open(file) as bundle:
            names = {os.path.normpath(name) for name in bundle.getnames()}
            for name in ("nodes.json", "jobs.json", "links.json", "checks.json", "audit.json", "cluster.yaml"):
                self.assertIn(name, names)
            for name in ("job.json", "job.yaml", "logs.json", "steps.json", "stacks.json"):
                self.assertIn("jobs/%s/%s" % (job, name), names)
            every = b"".join(bundle.extractfile(one).read() for one in bundle.getmembers() if one.isfile())
            self.assertNotIn(b"attempt_secret", every)
            self.assertNotIn(b"PRIVATE KEY", every)
            bundle.extractall(os.path.join(self.directory, "bundle"))
        # It is enough to plan the job again, without a cluster.
        folder = os.path.join(self.directory, "bundle")
        self.running.cli("plan", "%s/jobs/%s/job.yaml" % (folder, job), "--cluster", folder + "/cluster.yaml")
        again = self.running.cli("debug", "bundle", "-o", file, check=False)
        self.assertEqual(again.status, 2)
        self.assertIn("is there already", again.err)

        self.running.cli("cancel", job)
        self.running.wait_for_state(job, "cancelled")
        self.assertIn("does not run", self.running.cli("debug", "stacks", job, check=False).err)

    def test_jobs_that_ended_are_forgotten_but_for_the_newest(self):
        jobs = [self.finished("old", steps=5) for _ in range(3)]
        self.assertIn("0 jobs", self.running.cli("jobs", "gc").out)  # none ended a month ago
        length = ("jobs", "gc", "--older-than", "1s", "--keep", "1")

        def would():
            return [job for job in self.running.json(*length, "--dry-run")["would_delete"] if job in jobs]
        wait_for("a second has passed", lambda: len(would()) == 2)
        self.assertEqual(sorted(would()), sorted(jobs[:2]))
        self.running.cli(*length)
        left = {job["id"] for job in self.running.json("status")["jobs"]}
        self.assertIn(jobs[2], left)
        self.assertFalse(left & set(jobs[:2]))

    def test_curves_for_tensorboard_go_on_where_a_checkpoint_was(self):
        folder = os.path.join(self.directory, "events")
        more = {"tensorboard": folder, "checkpoint": {"directory": os.path.join(self.directory, "checkpoints"), "every_steps": 5},
                "plan": self.plan()}
        job = self.finished("curves", steps=10, **more)
        written, = glob.glob(os.path.join(folder, job, "events.out.tfevents.*"))
        found, dropped = scalars(written)
        self.assertEqual(dropped, [1])
        losses = {step: value for step, name, value in found if name == "train/loss"}
        told = {step["step"]: step["loss"] for step in self.running.json("steps", job)["steps"]}
        self.assertEqual(sorted(losses), sorted(told))
        for step, loss in told.items():
            self.assertAlmostEqual(losses[step], loss, delta=1e-5)
        self.assertEqual({name for _, name, _ in found}, {
            "train/loss", "train/gradient_norm", "train/learning_rate", "speed/step_seconds", "speed/tokens_per_second"})
        wrong = self.running.cli("submit", write_spec(self.running.path("wrong.yaml"), self.spec("wrong", tensorboard="relative")),
                                 check=False)
        self.assertEqual(wrong.status, 2)
        self.assertIn('tensorboard: "relative" is not an absolute path', wrong.err)

    def test_a_folder_that_cannot_be_written_costs_events_and_not_the_job(self):
        job = self.finished("blind", steps=5, tensorboard="/proc/events")
        logs = json.dumps(self.running.json("logs", job))
        self.assertIn("tensorboard: cannot make /proc/events", logs)


if __name__ == "__main__":
    cluster.main()
