"""What goes wrong is said once, clearly, and the state is as it says."""
import json
import math
import os
import struct
import subprocess

import cluster
from cluster import ClusterTest, core, cpu_device, fast_and_slow, program, route, run_command, unit, wait_for, write_file, \
    write_spec

NOWHERE = "127.0.0.1:1"


class ErrorsTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        fast, _ = fast_and_slow()
        cls.running = cls.new_cluster().start({"a": [fast]})

    def tearDown(self):
        """Whatever a test did, the cluster is well: nothing restarted, nothing holds a device."""
        self.assertIsNone(self.running.coordinator.child.poll(), self.running.coordinator.log()[-2000:])
        self.assertIsNone(self.running.agents["a"].child.poll(), self.running.agents["a"].log()[-2000:])
        wait_for("all devices are free", lambda: all(node["jobs"] == {} for node in self.running.nodes()))

    @staticmethod
    def on_a():
        return {"micro_batch_sequences": 4, "units": [unit("a/cpu0", 0, 5)], "routes": [route([0], 2)]}

    def assert_message(self, result, status, *wanted):
        """One line on standard error, with all that is wanted in it."""
        self.assertEqual(result.status, status, result)
        for text in wanted:
            self.assertIn(text, result.err)
        self.assertEqual(len(result.err.splitlines()), 1, result.err)

    def submit_and_watch(self, spec):
        file = write_spec(self.running.path(spec["name"] + ".job.yaml"), spec)
        result = self.running.cli("submit", file, "--watch", check=False)
        return result, self.running.job(result.out.split("\n")[0])

    def assert_fails(self, spec, *wanted):
        """The job ends as failed, without a restart, and its reason has all that is wanted."""
        result, job = self.submit_and_watch(spec)
        print("%s: %s" % (job["id"], job["state_reason"]), flush=True)
        self.assertEqual((job["state"], job["restarts"]), ("failed", 0), job["state_reason"])
        self.assertGreater(job["ended_at_seconds"], 0)
        for text in wanted:
            self.assertIn(text, job["state_reason"])
        self.assert_message(result, 1, "job %s failed: %s" % (job["id"], job["state_reason"]))
        return job

    def test_a_bad_job_file_is_refused_with_its_line(self):
        good = "name: x\nmodel:\n  gpt2: {layers: 3, hidden: 32, heads: 4}\ndata:\n  train: %s\n" % self.data + \
               "batch: {sequences: 8, sequence_length: 32}\nsteps: 20\n"
        jobs = len(self.running.json("status").get("jobs", []))
        cases = {
            "syntax": (good + "optimizer: {learning_rate: 1\n", ":"),
            "unknown-key": (good.replace("steps", "step"), ":7:", "step", "steps"),
            "type": (good.replace("layers: 3", "layers: three"), ":3:", "layers", "three"),
            "range": (good.replace("steps: 20", "steps: 0"), "steps", "0"),
            "missing": (good.replace("name: x\n", ""), "name: is required, but missing"),
            "no-steps": (good.replace("steps: 20\n", ""), "steps: is required, but missing; must be in [1, "),
            "relative": (good.replace(self.data, "x.txt"), ":5:", 'data.train: "x.txt" is not an absolute path'),
            "micro-batches": (good + "plan: {micro_batch_sequences: 4, units: [{devices: [a/cpu0], blocks: [{end: 5}]}], "
                              "routes: [{units: [0], micro_batches: 1}]}\n", ":8:", "must be the global batch of 8"),
            "scheduling": (good + "scheduling: {least_devices: 3, most_devices: 2}\n", ":8:", "scheduling.least_devices: 3"),
            "enum": (good + "precision: f64\n", ":8:", "precision", "f64", "bf16"),
            "heads": (good.replace("heads: 4", "heads: 5"), ":3:", "heads", "5", "32"),
            "empty": ("", "name"),
            "indentation": (good + " a: b\n", ":8:", "not valid YAML (indentation?)"),
        }
        for name, (text, *wanted) in cases.items():
            file = write_file(self.running.path("bad-" + name + ".yaml"), text)
            for command in ("submit", "plan"):
                with self.subTest(case=name, command=command):
                    self.assert_message(self.running.cli(command, file, check=False), 2, *wanted)
                    as_json = self.running.cli(command, file, "--output", "json", check=False)
                    error = json.loads(as_json.err)
                    self.assertEqual((as_json.status, as_json.out, error["code"]), (2, "", "invalid_argument"))
                    self.assertIn(wanted[-1], error["error"])
        self.assert_message(self.running.cli("submit", "/nowhere/job.yaml", check=False), 2, "/nowhere/job.yaml")
        self.assert_message(self.running.cli("submit", self.directory, check=False), 2, "it is a folder")
        whole = write_file(self.running.path("whole.yaml"), good)
        self.assert_message(self.running.cli("submit", whole, "--set", "steps=0", check=False), 2, "--set steps=0: steps: 0")
        self.assertEqual(len(self.running.json("status").get("jobs", [])), jobs)

    def test_a_bad_configuration_is_refused_with_its_line(self):
        for name in ("medley-coordinator", "medley-agent"):
            file = write_file(self.running.path("bad.yaml"), "log_level: info\nlisten: 127.0.0.1:0\n")
            self.assert_message(run_command([program(name), "--config", file]), 2, "bad.yaml:2:", "listen", "listen_address")

    def test_an_unknown_job_is_named(self):
        for command in (["status"], ["watch"], ["cancel"], ["resume"], ["replan"], ["hold"], ["release"], ["delete"], ["logs"],
                        ["logs", "-f"], ["steps"], ["steps", "-f"], ["trace", "-o", "-"], ["export", "--to", self.running.path("export")]):
            with self.subTest(command=command[0]):
                result = self.running.cli(command[0], "nobody-7", *command[1:], check=False)
                self.assert_message(result, 1, "nobody-7")
                self.assertEqual(result.out, "")

    def test_kernels_of_a_node_are_listed_and_an_unknown_node_is_named(self):
        listed = self.running.cli("nodes", "--kernels", "a", "--output", "json").json()
        device = listed["nodes"][0]["devices"][0]
        self.assertEqual((device["device"], device["failure"]), ("cpu0", ""))
        self.assertGreater(len(device["candidates"]), 1)
        self.assertEqual({choice["chosen"] for choice in device["choices"]}, {device["candidates"][0]})
        self.assertIn("a/cpu0: cpu-", self.running.cli("nodes", "--kernels").out)
        unknown = self.running.cli("nodes", "--kernels", "nowhere", check=False)
        self.assert_message(unknown, 1, "nowhere", "there are: a")

    def test_no_coordinator(self):
        for command in (["status"], ["nodes"], ["watch", "some-1"],
                        ["submit", write_spec(self.running.path("any.yaml"), self.spec("any"))]):
            with self.subTest(command=command[0]):
                result = run_command([program("medley"), "--coordinator", NOWHERE, *command])
                self.assert_message(result, 1, "no coordinator at " + NOWHERE)

    def test_a_command_line_that_is_wrong_ends_with_2_in_one_line(self):
        self.assert_message(self.running.cli("submitt", "x.yaml", check=False), 2, 'no command "submitt"; did you mean "submit"?')
        self.assert_message(run_command([program("medley"), "--coordinator", "http://127.0.0.1:1", "status"]), 2,
                            "without http://")
        self.assertIn("--coordinator", self.running.cli("help").out)
        self.assertRegex(self.running.cli("--version").out, r"^medley \d")

    def test_a_proxy_of_the_environment_is_left_alone(self):
        proxies = {name: "http://127.0.0.1:1" for name in ("http_proxy", "https_proxy", "grpc_proxy")}
        result = run_command([program("medley"), "nodes"], environment={**self.running.environment(), **proxies})
        self.assertEqual(result.status, 0, result)

    def test_generate_says_what_is_wrong_before_it_shows_the_prompt(self):
        generate = ["generate", "--model", "/nowhere/model"]
        for arguments, status, wanted in [(["--prompt", "In the beginning"], 2, "/nowhere/model"),
                                          (["--prompt", "a", "--tokens", "-1"], 2, "--tokens: -1 is not a whole number in [1, "),
                                          (["--prompt", "", "--tokens", "5"], 2, "--prompt: is empty"),
                                          (["--prompt-tokens", "1,two"], 2, '"two" is not a token\'s id'),
                                          (["--prompt-tokens", "1,2,3"], 2, "/nowhere/model"),
                                          (["--prompt-tokens", "1", "2", "3"], 2, "/nowhere/model"),
                                          (["--prompt-tokens", "[1,2,3]"], 2, "/nowhere/model")]:
            with self.subTest(arguments=arguments):
                result = self.running.cli(*generate, *arguments, check=False)
                self.assert_message(result, status, wanted)
                self.assertEqual(result.out, "")
        result = self.running.cli("--output", "json", *generate, "--prompt", "a", check=False)
        self.assertEqual((result.status, json.loads(result.err)["code"]), (2, "invalid_argument"), result)
        shown = self.running.cli("generate", "--help").out
        for default in ("default: 200", "default: 0.8", "default: 40", "default: 1"):
            self.assertIn(default, shown)

    def test_data_that_is_not_there(self):
        spec = self.spec("missing", plan=self.on_a())
        spec["data"]["train"] = self.running.path("nothing.txt")
        self.assert_fails(spec, "a/cpu0", "data.train", "nothing.txt", "No such file")

    def test_data_that_is_too_short(self):
        spec = self.spec("short", plan=self.on_a())
        spec["data"]["train"] = write_file(self.running.path("short.txt"), "x" * 32 * 8)
        self.assert_fails(spec, "a/cpu0", "data.train", "short.txt")

    def test_a_token_outside_the_vocabulary(self):
        tokens = [i % 256 for i in range(5000)]
        tokens[700] = 300  # in the third step
        spec = self.spec("tokens", plan=self.on_a())
        spec["data"].update(train=write_file(self.running.path("tokens.bin"), struct.pack("<5000H", *tokens)),
                            format="uint16")
        job = self.assert_fails(spec, "a/cpu0", "tokens.bin", "token 300 at position 700", "vocabulary of 256")
        self.assertEqual([step["step"] for step in self.running.steps(job["id"])], [1, 2])

    def test_a_full_disk_costs_checkpoints_and_no_steps_until_there_is_room_again(self):
        full = self.running.path("full")
        os.makedirs(full)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", full], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a small file system: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", full], check=True)
        job = self.running.submit(self.spec("full", plan=self.on_a(), checkpoint={"directory": full, "every_steps": 5}))
        waits = self.running.wait_for_job(job, "all steps, and a checkpoint that is missing", lambda j: (
            (j.get("last_step") or {}).get("step") == 20 and "step 20" in j["checkpoint_problem"]))
        self.assertIn("No space left", waits["checkpoint_problem"])
        self.assertEqual((waits["state"], waits["restarts"]), ("running", 0))
        self.assertEqual((waits["checkpoint_path"], waits["checkpoint_step"]), ("", 0))
        self.assertRegex(self.running.cli("status", job).out, "NO CHECKPOINT +step 20: .*No space left")
        self.assert_message(self.running.cli("export", job, "--to", self.running.path("e"), check=False), 1,
                            job, "no complete checkpoint")
        subprocess.run(["mount", "-o", "remount,size=64m", full], check=True)
        done = self.running.wait_for_state(job, "done")
        self.assertEqual((done["checkpoint_step"], done["checkpoint_problem"], done["restarts"]), (20, "", 0))
        self.assertEqual(len(self.running.steps(job)), 20)

    def test_a_loss_that_is_not_a_number_ends_the_job(self):
        job = self.assert_fails(self.spec("diverges", steps=300, plan=self.on_a(),
                                          optimizer={"learning_rate": 1000, "weight_decay": 10, "clip_norm": 0}),
                                "a/cpu0", "not finite", "learning rate")
        steps = self.running.steps(job["id"])
        self.assertGreater(len(steps), 0)
        self.assertLess(len(steps), 300)
        self.assertTrue(all(math.isfinite(step["loss"]) for step in steps))

    # A layer can be measured in 1 MiB; parameters, gradients and optimizer state of all take twice as much, and the host has no room.
    large = {"gpt2": {"layers": 9, "hidden": 32, "heads": 4, "vocabulary": 256}}
    no_room = {"host_memory_bytes": 65536}

    def test_a_job_that_fits_no_device_says_what_is_short(self):
        alone = self.new_cluster().start({"tiny": [cpu_device(cluster.cpu_variants()[0], core(0), memory="1MiB")]}, **self.no_room)
        job = alone.submit(self.spec("large", model=self.large))
        failed = alone.wait_for_job(job, "the end", lambda j: j["state"] in cluster.ENDED)
        print(failed["state_reason"], flush=True)
        self.assertEqual((failed["state"], failed["restarts"]), ("failed", 0))
        for wanted in ("tiny/cpu0", "MiB"):
            self.assertIn(wanted, failed["state_reason"])
        alone.kill_all()

    def test_a_job_that_fits_no_device_it_may_use_is_tried_once_and_fails_or_waits_for_more(self):
        tiny = cpu_device(cluster.cpu_variants()[0], core(0), memory="1MiB")
        both = self.new_cluster().start({"tiny": [tiny], "large": [cpu_device(cluster.cpu_variants()[0], core(0))]},
                                        **self.no_room)
        never = both.submit(self.spec("never", model=self.large, constraints={"devices": ["tiny/cpu0"]}))
        failed = both.wait_for_state(never, "failed")
        self.assertIn("tiny/cpu0", failed["state_reason"])
        later = both.submit(self.spec("later", model=self.large, constraints={"devices": ["tiny/cpu0", "elsewhere/cpu0"]}))
        both.wait_for_job(later, "a verdict", lambda j: "no plan fits" in j["state_reason"])
        # A job of the other device runs meanwhile, and the first is not tried over and over.
        other = both.submit(self.spec("other", steps=100, constraints={"devices": ["large/cpu0"]}))
        both.wait_for_state(other, "done")
        self.assertEqual(both.job(later)["state"], "queued")
        self.assertEqual(both.cli("logs", later).out.count("profiling"), 1)
        both.kill_all()

    def test_a_second_coordinator_on_the_same_state_is_refused(self):
        config = write_spec(self.running.path("second.yaml"), {
            "listen_address": "127.0.0.1:0", "state_directory": self.running.state_directory})
        self.assert_message(run_command([program("medley-coordinator"), "--config", config]), 1,
                            self.running.state_directory, "locked", "another process")
        self.assertEqual(len(self.running.nodes()), 1)

    def test_a_port_in_use_is_named(self):
        port = self.running.address
        config = write_spec(self.running.path("same-port.yaml"), {
            "listen_address": port, "state_directory": self.running.path("other-state")})
        result = run_command([program("medley-coordinator"), "--config", config])
        self.assertEqual(result.status, 1, result)
        self.assertIn("listen_address: cannot listen at %s: Address already in use" % port, result.err)
        config = write_spec(self.running.path("same-web-port.yaml"), {
            "listen_address": "127.0.0.1:0", "http_address": port, "state_directory": self.running.path("other-state")})
        result = run_command([program("medley-coordinator"), "--config", config])
        self.assertEqual(result.status, 1, result)
        self.assertIn("http_address: cannot listen at %s: Address already in use" % port, result.err)
        self.assertFalse(os.path.exists(self.running.path("other-state")))
        config = write_spec(self.running.path("same-port-agent.yaml"), {
            "name": "z", "coordinator_address": port, "listen_address": port, "devices": [cpu_device("sse41")]})
        result = run_command([program("medley-agent"), "--config", config])
        self.assertEqual(result.status, 1, result)
        self.assertIn("listen_address: cannot listen at %s: Address already in use" % port, result.err)
        self.assertEqual(len(self.running.nodes()), 1)

    def test_an_agent_with_a_device_that_cannot_be_says_which_and_why(self):
        fine = cpu_device("sse41")
        cases = [
            ([cpu_device("avx1024")], ["cpu0", "avx1024"]),
            ([fine, {**fine}], ["name: given twice"]),
            ([{"name": "gpu0", "backend": "magic", "memory_bytes": "1GiB"}], ["gpu0", "magic", "cpu", "reference"]),
            ([cpu_device("sse41", core=60000)], ["cpu0", "60000"]),
        ]
        with open("/proc/cpuinfo") as file:
            if "amx_tile" not in file.read():
                lacks = "AMX" if "avx512" in cluster.cpu_variants() else "AVX-512"  # the first of what it lacks
                cases.append(([cpu_device("amx")], ["cpu0", lacks]))
        for devices, wanted in cases:
            with self.subTest(wanted=wanted):
                config = write_spec(self.running.path("agent.yaml"), {
                    "name": "z", "coordinator_address": self.running.address, "devices": devices})
                self.assert_message(run_command([program("medley-agent"), "--config", config]), 2, *wanted)

    def test_a_name_that_is_taken_is_refused_and_the_holder_stays(self):
        second = cluster.Process("second", [program("medley-agent"), "--config", write_spec(
            self.running.path("second-a.yaml"), {"name": "a", "coordinator_address": self.running.address,
                                                 "listen_address": "127.0.0.1:0", "devices": [cpu_device("sse41")]})],
            self.running.path("second-a.log"))
        self.addCleanup(second.kill_group)
        wait_for("the refusal", lambda: "cannot register" in second.log())
        line = next(line for line in second.log().splitlines() if "cannot register" in line)
        self.assertIn("a", line)
        self.assertIn(self.running.nodes()[0]["agent_address"], line)
        self.assertEqual(len(self.running.nodes()), 1)


if __name__ == "__main__":
    cluster.main()
