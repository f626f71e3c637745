#!/usr/bin/env python3
"""Who may include whom: one table of all rooms, read from the bottom, and the exceptions to it by name.

A room is a folder ("runtime/base"), a folder with all below it ("tests/...") or a single header that fewer may use than its
folder ("runtime/base/mutex.h"); the longest name that fits a path is its room. Libraries that not everybody may use are
rooms, too. What a source includes directly is held against the table; what it reaches through others is the business of
the tests over Bazel's graph (BUILD.bazel).
"""
import ast
import os
import re
import unittest

# Headers of libraries that are a decision: a room that names none of them is pure. Not listed: the standard library, absl.
LIBRARIES = {
    "CLI11": r"CLI/.*",
    "gRPC": r"grpc(pp)?/.*|proto/.*\.grpc\.pb\.h",
    "hashes": r"xxhash\.h",
    "httplib": r"httplib\.h",
    "hwloc": r"hwloc.*",
    "COIN": r"coin/.*",
    "JSON": r"nlohmann/.*",
    "oneDNN": r"dnnl.*|oneapi/.*|omp\.h",
    "OpenSSL": r"openssl/.*",
    "protobuf": r"google/protobuf/.*",
    "spdlog": r"spdlog/.*",
    "SQLite": r"sqlite3\.h",
    "systemd": r"systemd/.*",
    "threads": r"thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|pthread\.h",
    "UCX": r"(ucp|ucs|uct)/.*",
    "YAML": r"yaml-cpp/.*",
}

# --- The lists that rooms share.

BASE = ["runtime/base"]
LOCKS = BASE + ["runtime/base/mutex.h", "runtime/base/stop_signal.h", "threads"]
FILES = BASE + ["runtime/base/files"]
DESCRIPTION = ["runtime/device/device_description.h"]
DEVICE = BASE + DESCRIPTION + ["runtime/device"]
IR = ["runtime/ir/" + name for name in ("cluster", "collective", "job", "link", "model", "plan", "program")]
VALUES = BASE + IR
ENGINE = ["runtime/engine/checkpoint", "runtime/engine/data", "runtime/engine/events", "runtime/engine/exec", "runtime/engine/shard"]
REGISTRY = ["kernels"]
BACKEND = DEVICE + ["kernels/arguments", "kernels/host"]
TRANSPORT = BASE + ["comm/transport"]
RIM = VALUES + DESCRIPTION + ["proto", "runtime/wire"]

# What is for tests alone, whichever room it is in.
FOR_TESTS = ["comm/conformance", "comm/faulty", "comm/loopback", "kernels/reference", "kernels/skeleton", "tests/..."]
ANY = ["*"]

# Room: what its sources may include besides one another; and, after it, what its tests and benchmarks (`*_test.cc`,
# `*_benchmark.cc` and the sources of targets that are testonly) may include besides that and FOR_TESTS.
ROOMS = {
    # What every room may use.
    "runtime/base": ([], ["runtime/base/files", "runtime/base/mutex.h", "runtime/base/stop_after.h", "threads"]),
    "runtime/base/mutex.h": (BASE + ["threads"], []),
    "runtime/base/current_phase.h": (LOCKS, []),
    "runtime/base/stop_after.h": (LOCKS, []),
    "runtime/base/stop_signal.h": (LOCKS, []),
    "runtime/base/stacks": (LOCKS, ["threads"]),
    "runtime/base/files": (BASE + ["hashes", "JSON"], []),

    # The one way of logging; who logs knows this room, and nobody else the library below it.
    "runtime/log": (LOCKS + ["JSON", "spdlog"], []),

    # The wire's messages; generated, so that nothing here includes anything.
    "proto": ([], []),

    # Pure values, which both daemons, the command line and the worker share.
    "runtime/ir/model": (BASE, []),
    "runtime/ir/link": (BASE, []),
    "runtime/ir/cluster": (BASE + DESCRIPTION + ["runtime/ir/link"], []),
    "runtime/ir/collective": (BASE + ["runtime/ir/link"], []),
    "runtime/ir/plan": (BASE + ["runtime/ir/model"], ["runtime/ir/program"]),
    "runtime/ir/program": (BASE + ["runtime/ir/collective", "runtime/ir/model", "runtime/ir/plan"], []),
    "runtime/ir/job": (BASE + ["runtime/ir/collective", "runtime/ir/link", "runtime/ir/model", "runtime/ir/plan"], []),

    # The contract of a device; what one is, as a value.
    "runtime/device/device_description.h": (BASE, []),
    "runtime/device": (BASE + DESCRIPTION, ["runtime/base/files", "threads"]),

    # Backends, behind the contract. Above them only the registry is known.
    "kernels/arguments": (DEVICE, []),
    "kernels/host": (DEVICE + LOCKS, []),
    "kernels/reference": (BACKEND, []),
    "kernels/portable": (DEVICE + ["kernels/arguments"], ["kernels/host"]),
    "kernels/portable/source": ([], []),
    "kernels/portable/source/typed": (["kernels/portable/source"], []),
    "kernels/fallback": (BACKEND + ["kernels/reference"], []),
    "kernels/cpu": (BACKEND + LOCKS + ["kernels/reference", "oneDNN"], []),
    "kernels/cuda": (BACKEND + LOCKS + ["kernels/fallback", "kernels/portable"], []),
    "kernels/opencl": (BACKEND + LOCKS + ["hashes", "kernels/fallback", "kernels/portable"], ["runtime/base/files"]),
    "kernels/emulated": (BACKEND + LOCKS + ["YAML"], ["runtime/base/files"]),
    "kernels": (DEVICE + ["kernels/cpu", "kernels/cuda", "kernels/emulated", "kernels/opencl", "kernels/reference"], []),
    "kernels/skeleton": (BACKEND + LOCKS + REGISTRY + ["kernels/fallback", "kernels/reference"], []),

    # The communicator. Algorithms are written over the transport; who asks for UCX gets it from above.
    "comm/transport": (BASE + ["hashes", "OpenSSL", "runtime/ir/collective"], ["threads"]),
    "comm/loopback": (TRANSPORT + LOCKS, []),
    "comm/faulty": (TRANSPORT + LOCKS, []),
    "comm/ucx": (TRANSPORT + LOCKS + ["UCX"], []),
    "comm/session": (TRANSPORT + LOCKS + ["OpenSSL"], []),
    "comm/protected": (TRANSPORT + LOCKS + ["hashes", "OpenSSL", "runtime/ir/link"], ["CLI11", "comm/ucx"]),
    "comm/communicator": (TRANSPORT + LOCKS + ["comm/protected", "comm/session", "comm/ucx", "runtime/ir/link"], []),
    "comm/collective": (TRANSPORT + ["runtime/ir/collective", "threads"], ["comm/ucx"]),
    "comm/staging": (TRANSPORT + DEVICE + ["runtime/ir/link"],
                     REGISTRY + ["kernels/cuda", "kernels/emulated", "kernels/host", "kernels/opencl", "threads"]),
    "comm/group": (TRANSPORT + DEVICE + LOCKS + ["comm/collective", "runtime/ir/collective"],
                   ["kernels/cuda", "kernels/host"]),
    "comm/topology": (DEVICE + ["hwloc"], []),
    "comm/probe": (TRANSPORT + ["comm/collective", "runtime/ir/link"], ["CLI11", "comm/ucx"]),
    "comm/conformance": (TRANSPORT + LOCKS, ["comm/probe", "comm/protected", "comm/ucx"]),
    "comm/perf": (TRANSPORT, ["comm/probe", "comm/ucx", "threads"]),

    # What the worker alone runs. It knows devices and transports, never a vendor.
    "runtime/engine/events": (FILES, []),
    "runtime/engine/data": (FILES + ["runtime/ir/job"], []),
    "runtime/engine/checkpoint": (FILES + ["hashes", "JSON", "runtime/engine/data", "runtime/ir/job", "runtime/ir/model"], []),
    "runtime/engine/shard": (DEVICE + ["runtime/ir/model", "runtime/ir/program"], ["runtime/base/mutex.h", "threads"]),
    "runtime/engine/exec": (VALUES + FILES + DEVICE + LOCKS + TRANSPORT + [
        "comm/collective", "comm/group", "comm/staging", "runtime/base/current_phase.h", "runtime/engine/checkpoint", "runtime/engine/data",
        "runtime/engine/shard"], []),
    "runtime/engine/align": (DEVICE + FILES + ["JSON"], []),

    # Messages become values here: for the rims.
    "runtime/wire": (VALUES + DESCRIPTION + ["gRPC", "JSON", "proto", "protobuf", "runtime/log", "YAML"], ["runtime/base/files"]),

    # Who calls, and what they may.
    "runtime/security": (BASE + ["gRPC", "OpenSSL", "proto", "runtime/base/mutex.h", "runtime/wire"], ["protobuf", "runtime/base/files"]),

    # Pages and figures over HTTP.
    "runtime/web": (LOCKS + ["httplib", "OpenSSL", "proto", "runtime/log", "runtime/security"], []),

    # What both daemons are alike in.
    "runtime/daemon": (BASE + [
        "CLI11", "gRPC", "proto", "protobuf", "runtime/base/files", "runtime/base/mutex.h", "runtime/log", "runtime/security", "runtime/web", "runtime/wire", "systemd"],
                       ["threads"]),

    # The node's side. Only the worker trains, and only the daemon speaks gRPC.
    "agent/channel": (LOCKS + ["protobuf"], ["proto"]),
    "agent/discovery": (RIM + DEVICE, REGISTRY + ["kernels/emulated", "runtime/base/files"]),
    "agent/profile": (DEVICE + ["runtime/engine/shard", "runtime/ir/model"], ["kernels/emulated"]),
    "agent/supervisor": (LOCKS + ["agent/channel", "runtime/log", "proto"], []),
    "agent/check": (FILES + ["proto", "runtime/wire"], []),
    "agent/joining": (FILES + LOCKS + ["gRPC", "runtime/log", "proto", "runtime/security", "runtime/wire"], []),
    "agent/rpc": (RIM + LOCKS + ["agent/check", "agent/supervisor", "gRPC", "runtime/log"], []),
    "agent/daemon": (RIM + REGISTRY + [
        "agent/discovery", "agent/joining", "agent/rpc", "agent/supervisor", "gRPC", "runtime/log", "protobuf", "runtime/daemon", "runtime/security", "runtime/web"], []),
    "agent/worker": (RIM + DEVICE + LOCKS + ENGINE + REGISTRY + TRANSPORT + [
        "agent/channel", "agent/discovery", "agent/profile", "CLI11", "comm/communicator", "comm/probe", "comm/staging",
        "comm/topology", "comm/ucx", "runtime/log", "runtime/base/current_phase.h", "runtime/base/stacks", "runtime/engine/align"],
        ["runtime/base/files"]),

    # The coordinator's side. Deciding knows no message, thread or log; the orchestrator is the shell around it.
    "coordinator/jobs": (VALUES, []),
    "coordinator/cluster": (VALUES, []),
    "coordinator/predictor": (VALUES, []),
    "coordinator/roofline": (VALUES + ["coordinator/predictor"], []),
    "coordinator/planner/techniques": (VALUES + ["coordinator/predictor"], []),
    # The one room that solves linear programmes.
    "coordinator/planner/classes": (VALUES + ["coordinator/planner/techniques", "coordinator/predictor", "COIN"], ["coordinator/planner", "JSON"]),
    "coordinator/planner": (VALUES + ["coordinator/planner/classes", "coordinator/planner/techniques", "coordinator/predictor"], ["threads"]),
    "coordinator/problem": (VALUES + ["coordinator/planner", "coordinator/planner/techniques", "coordinator/predictor"], []),
    "coordinator/wire": (RIM + [
        "coordinator/cluster", "coordinator/jobs", "coordinator/planner", "coordinator/problem", "coordinator/roofline"], ["protobuf"]),
    "coordinator/store": (LOCKS + FILES + ["proto", "SQLite"], ["protobuf"]),
    "coordinator/joining": (BASE + ["coordinator/store", "proto", "runtime/security"], ["runtime/base/files"]),
    "coordinator/orchestrator": (RIM + FILES + LOCKS + ["runtime/base/stop_after.h"] + [
        "coordinator/cluster", "coordinator/jobs", "coordinator/predictor", "coordinator/problem", "coordinator/store",
        "coordinator/wire", "runtime/log"], []),
    "coordinator/rpc": (RIM + LOCKS + [
        "coordinator/joining", "coordinator/orchestrator", "coordinator/store", "coordinator/wire", "gRPC", "runtime/log", "protobuf", "runtime/security"], []),
    "coordinator/web": (RIM + [
        "coordinator/orchestrator", "coordinator/rpc", "coordinator/store", "gRPC", "JSON", "protobuf", "runtime/daemon",
        "runtime/security", "runtime/web"], []),
    "coordinator/daemon": (RIM + FILES + [
        "coordinator/joining", "coordinator/orchestrator", "coordinator/rpc", "coordinator/store", "coordinator/web", "gRPC", "runtime/log", "protobuf", "runtime/daemon",
        "runtime/security", "runtime/web"], []),

    # A client of the coordinator.
    "cli": (RIM + LOCKS + ["CLI11", "gRPC", "JSON", "protobuf", "runtime/base/files", "runtime/base/stop_after.h", "runtime/log", "runtime/security"], []),

    # What spans rooms.
    "examples": (ANY, ANY),
    "tests/...": (ANY, ANY),
    "third_party": ([], []),
    "third_party/precompiled": (ANY, []),
}

# (who, which room): why it is so today. One that is not needed any more fails the test.
EXCEPTIONS = {
    ("agent/discovery/discovery.cc", "kernels/cpu"): "names the CPU's variants without opening a device",
    ("agent/discovery/discovery.cc", "kernels/emulated"): "an emulated device is what its profile says",
    ("agent/discovery/discovery.cc", "kernels/host"): "names the processor without opening a device",
    ("agent/profile/layer_calibration.cc", "kernels/emulated"): "layers of an emulated device are calibrated by its own ops",
    ("agent/worker/align_training.cc", "comm/loopback"): "a training of one rank talks to itself alone",
    ("agent/worker/probe_task.cc", "UCX"): "a report of a link says which UCX measured it",
    ("cli/align_command.cc", "runtime/engine/align"): "a local tool: reads what the workers it starts leave",
    ("cli/align_view.h", "runtime/engine/align"): "a local tool: shows what the workers it starts leave",
    ("cli/commands.cc", "runtime/engine/checkpoint"): "a local tool: export reads the checkpoint itself",
    ("cli/offline_plan.h", "coordinator/problem"): "plans for a file, without a coordinator",
    ("cli/offline_plan.cc", "coordinator/wire"): "tells of such a plan as a coordinator would",
    ("cli/offline_plan.cc", "runtime/engine/checkpoint"): "reads the dimensions of a model of Hugging Face's, to plan for it",
    ("cli/what_if.cc", "coordinator/problem"): "changes a cluster, to plan for it",
    ("cli/what_if.cc", "coordinator/wire"): "adds devices that a data sheet describes, as plans for a file do",
    ("comm/session/tcp_session.cc", "comm/ucx"): "which processes share a host is found out beside UCX",
    ("coordinator/orchestrator/job_beginning.cc", "runtime/engine/checkpoint"): "finds the checkpoint that a job goes on from",
    ("coordinator/orchestrator/job_beginning_test.cc", "runtime/engine/checkpoint"): "writes the checkpoints that its job goes on from",
    ("coordinator/orchestrator/spec_planning.cc", "runtime/engine/checkpoint"):
        "reads the dimensions of a model of Hugging Face's, to plan for it",
    ("coordinator/web/coordinator_site.cc", "cli"): "shows a job's plan by the page that the command line writes",
    ("runtime/ir/plan/check_plan.cc", "runtime/ir/program"): "a plan's memory is that of its programs",
}


def longest(path, names):
    """The most particular of `names` that `path` is in, or None."""
    if path in names:
        return path
    folder = os.path.dirname(path)
    if folder in names:
        return folder
    while folder:
        if folder + "/..." in names:
            return folder + "/..."
        folder = os.path.dirname(folder)
    return None


def room_of_include(header):
    """The room of what an #include names; None if it is nobody's, such as the standard library."""
    for name, pattern in LIBRARIES.items():
        if re.fullmatch(pattern, header):
            return name
    if header.startswith("proto/"):
        return "proto"
    return longest(header, ROOMS)


def includes(text):
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', text, re.MULTILINE)


def objections(path, text, for_tests=False):
    """What `path` includes and may not: (path, header, room of the header)."""
    room = longest(path, ROOMS)
    if room is None:
        return [(path, "", "")]
    may, tests_may = ROOMS[room]
    allowed = set(may) | {room}
    if for_tests:
        allowed |= set(tests_may) | set(FOR_TESTS)
    if "*" in allowed:
        return []
    rooms = [(header, room_of_include(header)) for header in includes(text)]
    return [(path, header, other) for header, other in rooms if other is not None and other not in allowed]


def testonly_sources(path, text):
    """Sources of the targets in a BUILD or .bzl file that are testonly, or are tests."""
    found = set()
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if not kind.endswith("_test") and not getattr(given.get("testonly"), "value", False):
            continue
        names = [node.value for key in ("name", "srcs", "hdrs") if key in given
                 for node in ast.walk(given[key]) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for name in names:
            found |= {os.path.join(os.path.dirname(path), name + ending) for ending in ("", ".h", ".cc")}
    return found


def walk(root, endings):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "bazel-"))]
        for name in files:
            if name.endswith(endings):
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                    yield path, file.read()


class RoomsTest(unittest.TestCase):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

    def setUp(self):
        self.sources = dict(walk(self.root, (".h", ".cc", ".c", ".cu", ".cuh")))
        self.for_tests = {path for path in self.sources if path.endswith(("_test.cc", "_benchmark.cc"))}
        for path, text in walk(self.root, (".bazel", ".bzl")):
            self.for_tests |= testonly_sources(path, text)

    def all_objections(self):
        return [found for path, text in sorted(self.sources.items())
                for found in objections(path, text, path in self.for_tests)]

    def test_a_wrong_include_is_found(self):
        for path, header in [
                ("runtime/base/bytes.h", "runtime/device/device.h"), ("runtime/base/bytes.h", "runtime/base/mutex.h"),
                ("runtime/ir/plan/plan.h", "runtime/engine/shard/layer.h"),
                ("runtime/ir/plan/plan.h", "proto/medley/v1/plan.pb.h"),
                ("runtime/ir/job/training_spec.h", "runtime/base/mutex.h"), ("runtime/ir/job/training_spec.cc", "thread"),
                ("runtime/device/ops.h", "kernels/cpu/gemm.h"),
                ("kernels/cpu/gemm.cc", "runtime/ir/model/model_config.h"),
                ("kernels/cpu/gemm.cc", "kernels/cuda/cuda_queue.h"),
                ("comm/ucx/ucx_worker.cc", "runtime/device/device.h"),
                ("comm/collective/run_collective.cc", "comm/ucx/ucx_transport.h"),
                ("runtime/engine/exec/trainer.cc", "kernels/backends.h"),
                ("runtime/engine/exec/trainer.cc", "comm/ucx/ucx_transport.h"),
                ("runtime/engine/exec/trainer.cc", "runtime/wire/job_codec.h"),
                ("agent/worker/serve.cc", "coordinator/store/store.h"), ("agent/worker/serve.cc", "kernels/cpu/gemm.h"),
                ("agent/worker/serve.cc", "grpcpp/grpcpp.h"),
                ("agent/supervisor/supervisor.cc", "runtime/engine/exec/trainer.h"),
                ("coordinator/planner/search.cc", "runtime/log/log.h"), ("agent/supervisor/supervisor.cc", "spdlog/spdlog.h"),
                ("agent/worker/main.cc", "spdlog/sinks/stdout_sinks.h"), ("runtime/daemon/run_daemon.cc", "spdlog/spdlog.h"),
                ("coordinator/planner/search.cc", "proto/medley/v1/plan.pb.h"),
                ("coordinator/problem/planned_job.cc", "runtime/wire/plan_codec.h"), ("coordinator/jobs/job_life.h", "mutex"),
                ("coordinator/orchestrator/orchestrator.cc", "grpcpp/grpcpp.h"),
                ("coordinator/orchestrator/orchestrator.cc", "proto/medley/v1/agent.grpc.pb.h"),
                ("coordinator/orchestrator/orchestrator.cc", "agent/channel/message_channel.h"),
                ("coordinator/store/store.cc", "coordinator/orchestrator/orchestrator.h"),
                ("cli/views.cc", "agent/rpc/registration.h"), ("cli/views.cc", "coordinator/store/store.h"),
                ("cli/views_test.cc", "coordinator/store/store.h")]:
            with self.subTest(path=path, header=header):
                for written in ('#include "%s"' % header, "#  include <%s>" % header):
                    found = objections(path, "#pragma once\n" + written, path.endswith("_test.cc"))
                    self.assertEqual([(who, what) for who, what, _ in found], [(path, header)])

    def test_what_the_table_allows_is_no_objection(self):
        for path, header in [("runtime/ir/plan/plan.h", "runtime/ir/model/model_config.h"),
                             ("runtime/ir/plan/plan.h", "vector"),
                             ("runtime/ir/plan/plan.h", "absl/status/status.h"),
                             ("kernels/backends.cc", "kernels/cpu/cpu_backend.h"),
                             ("agent/worker/main.cc", "kernels/backends.h"), ("tests/perf/op_times.cc", "kernels/cpu/gemm.h"),
                             ("cli/coordinator_client.cc", "proto/medley/v1/coordinator.grpc.pb.h")]:
            with self.subTest(path=path, header=header):
                self.assertEqual(objections(path, '#include "%s"\n' % header), [])
        reference = '#include "kernels/reference/reference_backend.h"\n'
        self.assertEqual(objections("runtime/engine/shard/layer_test.cc", reference, True), [])
        self.assertEqual(len(objections("runtime/engine/shard/layer.cc", reference)), 1)

    def test_testonly_sources_are_found_as_they_are_written(self):
        text = ('medley_library("no")\nmedley_test(name = "x_test")\n'
                'cc_library(name = "help", testonly = True, srcs = ["a.cc"], hdrs = ["b.h"])\n')
        found = testonly_sources("agent/rpc/BUILD.bazel", text)
        self.assertLessEqual({"agent/rpc/a.cc", "agent/rpc/b.h", "agent/rpc/help.h", "agent/rpc/x_test.cc"}, found)
        self.assertNotIn("agent/rpc/no.cc", found)
        self.assertIn("kernels/cuda/simulated_device.cc", self.for_tests)

    def test_arrows_point_downwards(self):
        left = {room: set(may) & set(ROOMS) - {room} for room, (may, _) in ROOMS.items() if "*" not in may}
        while left:
            lowest = [room for room, may in left.items() if not may & set(left)]
            self.assertTrue(lowest, "a circle among " + ", ".join(sorted(left)))
            for room in lowest:
                del left[room]

    def test_the_table_has_the_rooms_that_there_are(self):
        rooms = {longest(path, ROOMS) for path in self.sources} | {"proto"}
        self.assertEqual({path for path in self.sources if longest(path, ROOMS) is None}, set(), "sources in no room")
        self.assertEqual(set(ROOMS) - rooms, set(), "rooms without sources")
        named = {name for lists in ROOMS.values() for names in lists for name in names} | set(FOR_TESTS)
        self.assertEqual(named - set(ROOMS) - set(LIBRARIES) - {"*"}, set(), "no such room")

    def test_nobody_includes_what_the_table_does_not_allow(self):
        self.assertGreater(len(self.sources), 300)
        found = ["%s includes %s: room %s" % (path, header, other) for path, header, other in self.all_objections()
                 if (path, other) not in EXCEPTIONS]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_no_message_is_written_out_as_a_whole(self):
        """Messages and configurations may have secrets, and what is written out may end up in a log."""
        whole = re.compile(r"\b(Utf8|Short)?DebugString\(|TextFormat::Print|\bLog(Debug|Info|Warning|Error)\([^;]*\b(JsonOf|JsonLine|WriteYaml)\(")
        for planted in ("LogInfo(request.ShortDebugString());", "LogError(absl::StrCat(\"x\", JsonOf(config)));"):
            self.assertTrue(whole.search(planted))
        found = [path for path, text in self.sources.items() if path not in self.for_tests and not path.startswith("tests/")
                 and whole.search(text)]
        self.assertEqual(found, [])

    def test_exceptions_are_needed(self):
        needed = {(path, other) for path, _, other in self.all_objections()}
        self.assertEqual(set(EXCEPTIONS) - needed, set(), "exception not needed any more")


if __name__ == "__main__":
    unittest.main()
