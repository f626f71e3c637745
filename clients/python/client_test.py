"""The client against a coordinator and an agent of this machine: in the clear and with certificates, and while the coordinator is away."""
import contextlib
import json
import os
import pathlib
import signal
import sys
import tarfile
import tempfile
import threading
import unittest
from unittest import mock

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
# The package as it is built, before the folder of this file, in which it has no messages.
PACKAGE = tempfile.mkdtemp(prefix="package.", dir=os.environ.get("TEST_TMPDIR"))
with tarfile.open(os.path.join(HERE, "medley-python.tar")) as built:
    built.extractall(PACKAGE)
sys.path.insert(0, PACKAGE)

import medley  # noqa: E402
import medley.columns  # noqa: E402
import medley.connection  # noqa: E402
from medley.v1 import job_pb2  # noqa: E402
import cluster  # noqa: E402
from cluster import (  # noqa: E402
    ClusterTest, Process, cpu_device, cpu_variants, program, random_seed, run_command, wait_for, write_file, write_spec)

NOWHERE = "127.0.0.1:1"
PATIENCE = 120  # seconds that only a machine needs on which nothing gets on


def device():
    return cpu_device(cpu_variants()[-1])


def step_numbers(updates):
    return [step.step for update in updates for step in update.steps]


class ClientTest(ClusterTest):
    """No certificates of whoever runs the tests, and none of its configuration."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.random = random_seed()
        nothing = {name: "" for name in ("MEDLEY_COORDINATOR", "MEDLEY_CERTIFICATES")}
        cls.enterClassContext(mock.patch.dict(os.environ, XDG_CONFIG_HOME=cls.directory, **nothing))


class PlainTest(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.running = cls.new_cluster().start({"a": [device()]})
        cls.client = cls.enterClassContext(medley.Client(cls.running.address))

    def done_job(self, name, **more):
        return self.wait(self.client.submit(self.spec(name, **more)))

    def wait(self, job):
        self.running.wait_for_state(job.id, "done")  # which has a deadline
        return self.client.wait(job.id)

    def assert_raises(self, kind, *texts):
        return self.assertRaisesRegex(kind, "(?s)" + ".*".join(texts))

    def test_a_job_from_its_submission_to_its_end(self):
        submitted = self.client.submit(self.spec("whole"), request_id="once")
        self.assertEqual(self.client.submit(self.spec("whole"), request_id="once").id, submitted.id)
        updates = list(self.client.watch(submitted.id))
        self.assertEqual(step_numbers(updates), list(range(1, 21)))
        self.assertEqual(medley.state_of(updates[-1].job), "done", updates[-1].job.state_reason)
        self.assertTrue(medley.has_ended(self.client.job(submitted.id)))
        self.assertIn(submitted.id, [job.id for job in self.client.jobs()])
        lines = [line.text for line in self.client.logs(submitted.id, follow=True)]
        self.assertEqual(lines, [line["text"] for line in self.running.json("logs", submitted.id)["lines"]])
        self.assertEqual([line.text for line in self.client.logs(submitted.id, limit=1)], lines[-1:])
        report = self.client.explain(submitted.id)
        self.assertTrue(report.compared)
        self.assertEqual([share.device for share in report.devices], ["a/cpu0"])
        self.assertEqual(self.client.trace(submitted.id).lanes[0].device, "a/cpu0")
        with self.assert_raises(medley.FailedPrecondition, submitted.id):
            self.client.resume(submitted.id)
        self.assertIn(("SubmitJob", submitted.id, "OK"),
                      [(record.method, record.subject, record.result) for record in self.client.audit()])
        self.client.delete(submitted.id)
        with self.assert_raises(medley.NotFound, submitted.id):
            self.client.job(submitted.id)

    def test_steps_are_columns(self):
        data = {"train": self.data, "validation": self.data, "format": "text"}
        job = self.done_job("columns", validation={"every_steps": 10, "batches": 1}, data=data)
        steps = self.client.steps(job.id)
        self.assertEqual(list(steps.step), list(range(1, 21)))
        self.assertEqual(list(zip(steps.loss, steps.gradient_norm)), self.running.curve(job.id))
        self.assertEqual(list(steps.tokens), [8 * 32] * 20)
        for seconds, tokens, speed in zip(steps.step_seconds, steps.tokens, steps.tokens_per_second):
            self.assertAlmostEqual(speed * seconds, tokens)
        self.assertEqual((list(steps.validations.step), len(steps.validations.loss)), ([10, 20], 2))
        self.assertEqual({len(column) for column in steps.columns().values()}, {20})
        self.assertEqual(list(self.client.steps(job.id, after_step=15).step), [16, 17, 18, 19, 20])
        self.assertEqual(list(self.client.steps(job.id, limit=2).step), [19, 20])
        if medley.columns.numpy is not None:
            self.assertEqual(type(steps.loss).__name__, "ndarray")
            self.assertLess(steps.loss[-5:].mean(), steps.loss[:5].mean())
        with mock.patch.object(medley.columns, "numpy", None):
            plain = self.client.steps(job.id)
        self.assertEqual((plain.loss.typecode, list(plain.loss)), ("d", list(steps.loss)))

    def test_specs_are_read_as_the_command_line_reads_them(self):
        text = """
            name: spelled
            model: {gpt2: {layers: 1, hidden: 16, heads: 2, vocabulary: 256}}
            data: {train: %s, format: text, order: shuffled}
            batch: {sequences: 2, sequence_length: 8}
            steps: +5  # of YAML's own ways to write a number
            precision: f32
            optimizer: {learning_rate: 1e-3, decay: linear, epsilon: .1}
            checkpoint: {directory: "/nowhere/checkpoints"}
            validation:
            constraints: {devices: [a/cpu0], schedules: [1f1b, gpipe], micro_batch_sizes: [1, 2]}
            scheduling: {hold: true, priority: -1}
            plan:
              micro_batch_sequences: 1
              units: [{devices: [a/cpu0], blocks: [{first: 0, end: 3}]}]
              routes: [{units: [0], micro_batches: 2}]
            """ % self.data
        file = write_file(self.running.path("spelled.yaml"), text)
        by_command_line = self.client.job(self.running.json("submit", file)["id"])
        for spec in (text, file, pathlib.Path(file)):
            job = self.client.submit(spec)
            self.assertEqual(job.spec, by_command_line.spec)
            self.client.cancel(job.id)
        self.client.cancel(by_command_line.id)

    def test_specs_that_cannot_be_read_name_the_field(self):
        for spec, problem in [({"optimizer": {"learning_rat": 1}}, 'optimizer.learning_rat: unknown key; did you mean "learning_rate"?'),
                              ({"steps": "5"}, 'steps: "5" is not a whole number'),
                              ("steps: 1e3\n", "the spec: steps: 1e3 is not a whole number"),
                              ({"steps": 2.5}, "steps: 2.5 is not a whole number"),
                              ({"steps": 1 << 40}, "steps: Value out of range: 1099511627776"),
                              ({"data": {"order": "sorted"}}, 'data.order: "sorted" is none of sequential, shuffled'),
                              ({"plan": {"units": [{}, {"blocks": 3}]}}, "plan.units[1].blocks: must be a list"),
                              ("steps: 1\nsteps: 2\n", "the spec: line 2: a key must be a word that is given once"),
                              ("steps:\n", "the spec: steps: has no value; give one or leave the key out"),
                              ({"allow_emulated": 1}, "allow_emulated: 1 is neither true nor false")]:
            with self.subTest(spec=spec):
                with self.assertRaises(medley.InvalidArgument) as raised:
                    self.client.submit(spec)
                self.assertEqual(str(raised.exception), problem)
        with self.assert_raises(medley.InvalidArgument, "cannot read /nowhere/job.yaml"):
            self.client.submit("/nowhere/job.yaml")

    def test_what_the_coordinator_refuses_is_said_with_its_code(self):
        with self.assert_raises(medley.InvalidArgument, "batch.sequence_length", "1") as raised:
            self.client.submit(self.spec("refused", batch={"sequences": 8}))
        self.assertIs(raised.exception.code, grpc.StatusCode.INVALID_ARGUMENT)
        for ask in (self.client.job, self.client.cancel, self.client.steps, lambda job: list(self.client.watch(job)),
                    lambda job: list(self.client.logs(job))):
            with self.assert_raises(medley.NotFound, 'no job "none-1"'):
                ask("none-1")
        with self.assert_raises(medley.NotFound, "nowhere"):
            self.client.drain("nowhere")

    def test_plans(self):
        report = self.client.plan(self.spec("planned"))
        self.assertGreater(report.predicted_tokens_per_second, 0)
        self.assertTrue(report.proven_optimal)
        self.assertNotIn("planned", [job.spec.name for job in self.client.jobs()])
        with self.assert_raises(medley.MedleyError, "nowhere/cpu0"):
            self.client.plan(self.spec("planned", constraints={"devices": ["nowhere/cpu0"]}))

    def test_a_job_is_held_and_let_go_and_a_node_is_drained(self):
        self.addCleanup(self.client.undrain, "a")
        self.client.drain("a")
        self.assertTrue(self.client.nodes()[0].drained)
        job = self.client.submit(self.spec("held", steps=6))
        self.assertTrue(self.client.hold(job.id).held)
        self.client.undrain("a")
        self.assertFalse(self.client.nodes()[0].drained)
        self.assertEqual(medley.state_of(self.client.job(job.id)), "queued")
        with self.assert_raises(medley.FailedPrecondition, "run"):
            self.client.replan(job.id)
        self.assertFalse(self.client.release(job.id).held)
        self.assertEqual(medley.state_of(self.wait(job)), "done")
        with self.assert_raises(medley.FailedPrecondition, "a"):
            self.client.forget("a")

    def test_a_job_is_cancelled_and_resumed(self):
        job = self.client.submit(self.spec("resumed", steps=6, scheduling={"hold": True}))
        self.assertEqual(medley.state_of(self.client.cancel(job.id)), "cancelled")
        self.client.resume(job.id)
        self.client.release(job.id)
        self.assertEqual(medley.state_of(self.wait(job)), "done")

    def test_the_next_steps_of_a_running_job_are_traced(self):
        job = self.client.submit(self.spec("traced", steps=1_000_000))
        self.addCleanup(self.client.cancel, job.id)
        next(update for update in self.client.watch(job.id) if update.steps)
        traces = []  # a machine that is busy with other things may lose steps, or all three
        wait_for("steps are traced", lambda: traces.extend(self.client.trace_steps(job.id, 3)) or traces)
        numbers = [trace.step for trace in traces]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLess(numbers[-1] - numbers[0], 3)
        for trace in traces:
            self.assertEqual((trace.job_id, [lane.device for lane in trace.lanes]), (job.id, ["a/cpu0"]))
            self.assertTrue(trace.lanes[0].instructions)
        with self.assert_raises(medley.NotFound, 'no job "none-1"'):
            list(self.client.trace_steps("none-1"))

    def test_nodes_are_checked(self):
        [checked] = self.client.check(directories=[self.directory, "/nowhere"])
        self.assertEqual((checked.node, checked.failure), ("a", ""))
        self.assertIn("/nowhere", " ".join(str(finding) for finding in checked.findings))
        self.assertEqual([one.node for one in self.client.check("a")], ["a"])
        with self.assert_raises(medley.NotFound, "nowhere"):
            self.client.check("nowhere")

    def test_a_backup_makes_a_store(self):
        job = self.done_job("kept")
        file = pathlib.Path(self.running.path("backup.db"))
        size = self.client.back_up(file)
        self.assertEqual((file.stat().st_size, file.read_bytes()[:15]), (size, b"SQLite format 3"))
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        with self.assert_raises(medley.InvalidArgument, "backup.db is there already"):
            self.client.back_up(file)
        self.assertIn(job.id.encode(), file.read_bytes())
        others = file.with_name("others")
        others.write_bytes(b"another's")
        file.unlink()
        # What looks like another's backup that is on its way to the same file.
        partial = file.with_name(f"{file.name}.partial")
        partial.write_bytes(b"half of another")
        self.client.back_up(file)
        self.assertEqual((file.lstat().st_mode, partial.read_bytes()), (0o100600, b"half of another"))
        for lay in (os.symlink, os.link):
            with self.subTest(lay=lay.__name__):
                file.unlink()
                lay(others, file)
                with self.assert_raises(medley.InvalidArgument, "backup.db is there already"):
                    self.client.back_up(file)
                self.assertEqual(others.read_bytes(), b"another's")
        self.assertEqual(sorted(one.name for one in file.parent.glob("backup.db*")), ["backup.db", partial.name])
        with medley.Client(NOWHERE) as nobody, self.assertRaises(medley.Unavailable):
            nobody.back_up(self.running.path("other.db"))
        self.assertFalse(list(pathlib.Path(self.running.path("backup.db")).parent.glob("other.db*")))

    def test_what_plans_measures_or_copies_has_a_deadline_only_where_a_timeout_was_given(self):
        for given, limits in (({}, [None, None, None, None, 10]), ({"timeout": 10}, [2100, 300, 300, 3600, 10])):
            with self.subTest(given=given), medley.Client(self.running.address, **given) as client, \
                    mock.patch.object(medley.connection.Connection, "_method") as method:
                client.plan(self.spec("patient"), time_limit_seconds=1800)
                client.explain("x")
                client.replan("x")
                client.links(measure=True)
                client.job("x")
                self.assertEqual([call.kwargs["timeout"] for call in method.return_value.call_args_list], limits)

    def test_without_its_configuration_nobody_joins(self):
        for ask in (self.client.create_join_token, self.client.join_tokens, lambda: self.client.revoke_join_token("x")):
            with self.assert_raises(medley.FailedPrecondition, "join: is not set"):
                ask()

    def test_the_cluster(self):
        self.done_job("measures")
        self.assertEqual([node.name for node in self.client.nodes()], ["a"])
        self.assertEqual([profile.device_kind for profile in self.client.profiles()][:1],
                         [self.client.nodes()[0].devices[0].kind])
        self.assertEqual(list(self.client.links()), [])
        self.assertEqual([node.name for node in self.client.cluster().nodes], ["a"])
        with self.assert_raises(medley.InvalidArgument, "two different"):
            self.client.links(["a/cpu0"], measure=True)

    def test_addresses(self):
        with mock.patch.dict(os.environ, MEDLEY_COORDINATOR=self.running.address), medley.Client() as client:
            self.assertEqual(client.nodes()[0].name, "a")
        self.assertEqual([medley.Client(address).address for address in (None, "host", "host:1", "[::1]")],
                         ["127.0.0.1:7070", "host:7070", "host:1", "[::1]:7070"])
        for address in ("http://host", "host:0", "host:70000", "::1", "host:", "ho st"):
            with self.subTest(address=address), self.assert_raises(medley.InvalidArgument, "HOST:PORT"):
                medley.Client(address)
        with medley.Client(NOWHERE) as client, self.assert_raises(medley.Unavailable, "no coordinator at " + NOWHERE):
            client.jobs()
        with medley.Client(NOWHERE) as client, self.assert_raises(medley.Unavailable, "no coordinator at " + NOWHERE):
            list(client.watch("any-1"))

    def test_the_example_runs(self):
        with open(os.path.join(HERE, "example.ipynb")) as file:
            cells = json.load(file)["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        self.assertEqual([(cell["outputs"], cell["execution_count"]) for cell in code], [([], None)] * len(code))
        names = {}
        with mock.patch.dict(os.environ, MEDLEY_COORDINATOR=self.running.address, MEDLEY_EXAMPLE_TEXT=self.data):
            for number, cell in enumerate(code):
                exec(compile("".join(cell["source"]), "example.ipynb, cell %d" % number, "exec"), names)
        self.assertEqual(medley.state_of(names["job"]), "done")

    def test_the_package_has_its_types(self):
        package = pathlib.Path(medley.__file__).parent
        self.assertTrue((package / "py.typed").exists())
        self.assertTrue((package / "v1" / "job_pb2.pyi").exists())
        # Nothing of the name "proto", which others have, too.
        self.assertNotIn("proto", sys.modules)
        self.assertIs(medley.JobSpec, job_pb2.JobSpec)


class AwayTest(ClientTest):
    STEPS = 300

    def setUp(self):
        self.running = self.new_cluster().start({"a": [device()]})
        self.client = self.enterContext(medley.Client(self.running.address))

    def start_coordinator_meanwhile(self):
        """While the watcher asks for it; by a thread that stays, since children end with the thread that started them."""
        ended = threading.Event()

        def run():
            self.running.start_coordinator()
            ended.wait()

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)

    def test_watching_goes_on_behind_the_last_step_when_the_coordinator_is_back(self):
        job = self.client.submit(self.spec("away", steps=self.STEPS)).id
        kill_at = self.random.randrange(1, self.STEPS // 2)
        print("the coordinator is killed at step %d" % kill_at, flush=True)
        steps, has_been_killed = [], False
        for update in self.client.watch(job, patience=PATIENCE):
            steps += step_numbers([update])
            if not has_been_killed and steps and steps[-1] >= kill_at:
                self.running.coordinator.kill()
                self.start_coordinator_meanwhile()
                has_been_killed = True
        self.assertTrue(has_been_killed)
        self.assertEqual(steps, list(range(1, self.STEPS + 1)))
        self.assertEqual((medley.state_of(update.job), update.job.attempt, update.job.restarts), ("done", 1, 0))

    def test_what_is_lost_with_a_worker_is_told_again_of_a_newer_attempt(self):
        checkpoint = {"directory": os.path.join(self.directory, "checkpoints"), "every_steps": 50}
        job = self.client.submit(self.spec("again", steps=self.STEPS, checkpoint=checkpoint)).id
        kill_at = self.random.randrange(1, self.STEPS)
        print("worker and coordinator are killed at step %d" % kill_at, flush=True)
        told, newest, have_been_killed = {}, (0, 0), False
        for update in self.client.watch(job, patience=PATIENCE):
            for step in update.steps:
                self.assertGreater((step.attempt, step.step), newest)
                newest = (step.attempt, step.step)
                told[step.step] = step.loss
            if not have_been_killed and newest[1] >= kill_at:
                for worker in self.running.workers("a"):  # none where all steps came at once
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                self.running.coordinator.kill()
                self.running.start_coordinator()
                have_been_killed = True
        self.assertTrue(have_been_killed)
        self.assertEqual(medley.state_of(update.job), "done", update.job.state_reason)
        steps = self.client.steps(job)
        self.assertEqual(list(steps.step), list(range(1, self.STEPS + 1)))
        self.assertEqual([told[step] for step in steps.step], list(steps.loss))

    def test_watching_ends_when_there_is_silence_or_nobody(self):
        job = self.client.submit(self.spec("silent", scheduling={"hold": True})).id
        updates = self.client.watch(job, silence=3, patience=0)  # longer than a busy machine takes to answer
        self.assertEqual(medley.state_of(next(updates).job), "queued")
        self.running.coordinator.kill(signal.SIGSTOP)
        try:
            with self.assertRaisesRegex(medley.Unavailable, "has been silent for 3 s"):
                list(updates)
        finally:
            self.running.coordinator.kill(signal.SIGCONT)
        updates = self.client.watch(job, patience=0)
        next(updates)
        self.running.coordinator.kill()
        with self.assertRaises(medley.Unavailable):
            list(updates)
        self.running.start_coordinator()
        self.assertEqual(medley.state_of(self.client.cancel(job)), "cancelled")


class CertificatesTest(ClientTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.medley("certs", "init", cls.path("authority"))
        cls.medley("certs", "init", cls.path("strangers"))
        for role in ("coordinator", "agent", "viewer", "operator", "admin"):
            cls.issue(role, role, {"agent": "a"}.get(role, role))
        cls.issue("stranger", "admin", "stranger", authority="strangers")
        cls.address = None
        cls.start_coordinator()
        cls.start("agent", "medley-agent", {"name": "a", "coordinator_address": cls.address, "listen_address": "127.0.0.1:0",
                                            "devices": [device()]})
        cls.wait_for_the_node()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.directory, *names)

    @classmethod
    def medley(cls, *arguments):
        result = run_command([program("medley"), *arguments])
        if result.status != 0:
            raise AssertionError(str(result))

    @classmethod
    def issue(cls, folder, role, name, authority="authority", hosts=()):
        cls.medley("certs", "issue", cls.path(folder), "--authority", cls.path(authority), "--role", role, "--name", name,
                   *[word for host in hosts for word in ("--host", host)])

    @classmethod
    def start(cls, folder, executable, config):
        tls = {kind: cls.path(folder, kind + ".pem") for kind in ("certificate", "key", "authority")}
        file = write_spec(cls.path(folder + ".yaml"), {**config, "tls": tls})
        process = Process(folder, [program(executable), "--config", file], cls.path(folder + ".log"))
        cls.addClassCleanup(process.kill_group)
        return process

    @classmethod
    def start_coordinator(cls, folder="coordinator"):
        """Where the one before listened."""
        address_file = cls.path("address." + folder)
        cls.coordinator = cls.start(folder, "medley-coordinator", {
            "listen_address": cls.address or "127.0.0.1:0", "address_file": address_file, "state_directory": cls.path("state"),
            "join": {"certificate": cls.path("authority", "authority.pem"), "key": cls.path("authority", "authority-key.pem")}})
        wait_for(lambda: cls.coordinator.log(), lambda: os.path.exists(address_file))
        cls.address = pathlib.Path(address_file).read_text().strip()

    @classmethod
    def wait_for_the_node(cls):
        with cls.client("viewer") as client:
            wait_for("the node is alive", lambda: [node for node in client.nodes() if node.alive])

    @classmethod
    def client(cls, folder, address=None):
        return medley.Client(address or cls.address, cls.path(folder))

    def test_roles(self):
        spec = self.spec("operated", steps=6)
        with self.client("viewer") as viewer:
            self.assertEqual(viewer.nodes()[0].name, "a")
            with self.assertRaisesRegex(medley.PermissionDenied, "SubmitJob needs the role operator; viewer has the role viewer"):
                viewer.submit(spec)
        with self.client("operator") as operator:
            job = operator.submit(spec)
            self.assertEqual(medley.state_of(operator.wait(job.id)), "done")
            with self.assertRaises(medley.PermissionDenied):
                operator.audit()
        with mock.patch.dict(os.environ, MEDLEY_CERTIFICATES=self.path("admin")), medley.Client(self.address) as admin:
            self.assertIn(("operator", "SubmitJob", "OK"), [(one.identity, one.method, one.result) for one in admin.audit()])

    def test_join_tokens(self):
        with self.client("admin") as admin:
            made = admin.create_join_token("node7", valid_seconds=60)
            self.assertEqual(made.token.split(".")[1], made.token_id)
            other = admin.create_join_token()
            self.assertAlmostEqual(other.expires_at_seconds - made.expires_at_seconds, 3540, delta=PATIENCE)
            self.assertEqual([(one.id, one.node, one.created_by) for one in admin.join_tokens()],
                             [(other.token_id, "", "admin"), (made.token_id, "node7", "admin")])
            admin.revoke_join_token(made.token_id)
            self.assertEqual([one.revoked_at_seconds > 0 for one in admin.join_tokens()], [False, True])
            with self.assertRaisesRegex(medley.NotFound, "none"):
                admin.revoke_join_token("none")
        with self.client("operator") as operator, self.assertRaises(medley.PermissionDenied):
            operator.create_join_token()

    def test_only_a_coordinator_of_the_authority_is_asked(self):
        with self.client("viewer") as viewer:
            agent = viewer.nodes()[0].agent_address
        with self.client("admin", agent) as client, self.assertRaisesRegex(medley.Unauthenticated, "that of a with the role agent"):
            client.nodes()
        with self.client("stranger") as client, self.assertRaisesRegex(medley.Unauthenticated, "not by the authority of .*stranger"):
            client.nodes()
        with medley.Client(self.address) as client, self.assertRaises(medley.Unavailable):
            client.nodes()
        with self.client("viewer", NOWHERE) as client, self.assertRaisesRegex(medley.Unavailable, "no coordinator at " + NOWHERE):
            client.nodes()
        with self.assertRaisesRegex(medley.InvalidArgument, "certificate.pem cannot be read"):
            self.client("authority")

    def test_a_certificate_without_a_role_must_be_for_the_host(self):
        for hosts, kind in ((["127.0.0.1", "localhost"], None), (["elsewhere"], medley.Unavailable)):
            folder = "by-host-%s" % hosts[0]
            self.medley("certs", "issue", self.path(folder), "--authority", self.path("authority"), "--name", folder, "--host", hosts[0])
            address_file = self.path("address." + folder)
            process = self.start(folder, "medley-coordinator", {
                "listen_address": "127.0.0.1:0", "address_file": address_file, "state_directory": self.path("state." + folder)})
            wait_for(process.log, lambda: os.path.exists(address_file))
            with self.subTest(hosts=hosts), self.client("viewer", pathlib.Path(address_file).read_text().strip()) as client:
                if kind is None:
                    self.assertEqual(client.nodes(), [])
                else:
                    with self.assertRaises(kind):
                        client.nodes()

    def test_watching_goes_on_with_another_certificate_of_the_coordinator_and_of_the_user(self):
        steps = 300
        self.issue("renewed", "operator", "renewed", hosts=["localhost"])
        self.issue("coordinator-again", "coordinator", "coordinator", hosts=["*.cluster.local", "127.0.0.1"])
        with self.client("renewed") as client:
            job = client.submit(self.spec("renewed", steps=steps)).id
            seen, is_renewed = [], False
            for update in client.watch(job, patience=PATIENCE):
                seen += step_numbers([update])
                if not is_renewed and seen:
                    self.coordinator.kill()
                    self.medley("certs", "renew", self.path("renewed"), "--authority", self.path("authority"))
                    self.start_coordinator("coordinator-again")
                    is_renewed = True
            self.assertTrue(is_renewed)
            self.assertEqual(seen, list(range(1, steps + 1)))
            self.assertEqual((medley.state_of(update.job), update.job.attempt), ("done", 1))
        self.wait_for_the_node()


if __name__ == "__main__":
    cluster.main()
