#include "agent/supervisor/supervisor.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "runtime/base/clock.h"

namespace {
std::atomic<bool> ends_are_held = false;
std::atomic<bool> next_start_is_held = false, start_is_held = false;
}  // namespace

// The system's; but as long as `ends_are_held` it says of no process that it has ended, as of one that has
// gigabytes to give back.
extern "C" int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  const auto waited = static_cast<int>(syscall(SYS_waitid, type, id, info, options, nullptr));
  if (waited == 0) ends_are_held.wait(true);
  return waited;
}

// The system's; but where `next_start_is_held` was set, the start of a worker, which takes a pipe for its log,
// stops here as long as `start_is_held`.
extern "C" int pipe2(int descriptors[2], int flags) noexcept {
  if (next_start_is_held.exchange(false)) {
    start_is_held = true;
    start_is_held.notify_all();
    start_is_held.wait(true);
  }
  return static_cast<int>(syscall(SYS_pipe2, descriptors, flags));
}

namespace medley {
namespace {

constexpr char kFakeWorker[] = "bazel-bin/agent/supervisor/fake_worker";  // from the root of the repository
constexpr char kFakeWorkerOfTest[] = "agent/supervisor/fake_worker";      // from the runfiles of `bazel test`

std::string FakeWorkerProgram() {
  return access(kFakeWorkerOfTest, X_OK) == 0 ? kFakeWorkerOfTest : kFakeWorker;
}

Supervisor::Options TwoDevices() {
  Supervisor::Options options{.node_name = "laptop", .worker_program = FakeWorkerProgram()};
  for (const char* name : {"cpu0", "cpu1"}) {
    v1::Device& device = options.devices.emplace_back();
    device.set_name(name);
    device.set_memory_bytes(1 << 20);
  }
  return options;
}

v1::PrepareRequest Task(const std::string& id, uint64_t attempt = 1, const std::string& device = "cpu0") {
  v1::PrepareRequest request;
  request.set_task_id(id);
  request.set_attempt(attempt);
  request.set_device(device);
  request.mutable_probe();
  return request;
}

absl::Time Soon() { return Now() + absl::Minutes(1); }

struct Reported {
  absl::Status status;
  std::vector<v1::WorkerEvent> events;
  const v1::Finished& finished() const { return events.back().finished(); }
};

v1::StartRequest StartOf(const std::string& id, const std::vector<std::string>& addresses = {},
                         uint64_t after = 0) {
  v1::StartRequest request;
  request.set_task_id(id);
  for (const std::string& address : addresses) request.add_data_plane_addresses(address);
  request.set_after_event(after);
  return request;
}

Reported RunTask(Supervisor& supervisor, const std::string& id,
                 const std::vector<std::string>& addresses = {}, uint64_t after = 0) {
  Reported reported;
  reported.status = supervisor.Follow(
      StartOf(id, addresses, after),
      [&](const v1::WorkerEvent& event) {
        reported.events.push_back(event);
        return true;
      },
      [] { return true; });
  return reported;
}

TEST_CASE("a worker says what its threads do, and which cannot is told apart") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("hang/1"), Soon()).ok());
  REQUIRE(supervisor.Prepare(Task("do nothing/1", 1, "cpu1"), Soon()).ok());
  CHECK(absl::IsCancelled(supervisor.Follow(
      StartOf("do nothing/1"), [](const v1::WorkerEvent&) { return true; }, [] { return false; })));
  CHECK(*supervisor.Stacks("hang/1", Soon()) == "thread 1");
  CHECK(*supervisor.Stacks("hang/1", Soon()) == "thread 1");
  CHECK(absl::IsDeadlineExceeded(supervisor.Stacks("do nothing/1", Now() + absl::Milliseconds(50)).status()));
  CHECK(absl::IsNotFound(supervisor.Stacks("nobody/1", Soon()).status()));
  supervisor.Stop("hang/1");
  CHECK(absl::IsNotFound(supervisor.Stacks("hang/1", Soon()).status()));
}

TEST_CASE("a worker says which steps it traces, and which cannot is told apart") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("hang/1"), Soon()).ok());
  REQUIRE(supervisor.Prepare(Task("do nothing/1", 1, "cpu1"), Soon()).ok());
  CHECK(absl::IsCancelled(supervisor.Follow(
      StartOf("do nothing/1"), [](const v1::WorkerEvent&) { return true; }, [] { return false; })));
  v1::TraceTaskRequest request;
  const auto ask = [&](const std::string& task, uint32_t first_step, uint32_t steps,
                       absl::Time deadline = Soon()) {
    request.set_task_id(task);
    request.set_first_step(first_step);
    request.set_steps(steps);
    return supervisor.Trace(request, deadline);
  };
  for (const auto& [first_step, steps, accepted] :
       {std::tuple(0u, 0u, false), std::tuple(6u, 2u, true), std::tuple(5u, 2u, false)}) {
    CAPTURE(first_step, steps);
    const absl::StatusOr<v1::TraceTaskResponse> answer = ask("hang/1", first_step, steps);
    INFO(answer.status().ToString());
    REQUIRE(answer.ok());
    CHECK(answer->current_step() == 5);
    CHECK(answer->accepted() == accepted);
  }
  CHECK(absl::IsDeadlineExceeded(ask("do nothing/1", 6, 2, Now() + absl::Milliseconds(50)).status()));
  CHECK(absl::IsNotFound(ask("nobody/1", 6, 2).status()));
  supervisor.Stop("hang/1");
  CHECK(absl::IsNotFound(ask("hang/1", 6, 2).status()));
}

TEST_CASE("a task is prepared, run with its peers' addresses, and its last event is its end") {
  Supervisor supervisor(TwoDevices());
  const absl::StatusOr<v1::PrepareResponse> prepared = supervisor.Prepare(Task("train/1"), Soon());
  INFO(prepared.status().ToString());
  REQUIRE(prepared.ok());
  CHECK(prepared->allocated_bytes() == 1 << 20);
  const Reported reported = RunTask(supervisor, "train/1", {"first", "second"});
  CHECK(reported.status.ok());
  REQUIRE(reported.events.size() >= 3);
  CHECK(reported.finished().code() == 0);
  const auto has = [&](const auto& wanted) {
    return std::any_of(reported.events.begin(), reported.events.end(), wanted);
  };
  CHECK(has([](const v1::WorkerEvent& event) { return event.step().step() == 2; }));
  CHECK(has([](const v1::WorkerEvent& event) { return event.log() == "nearly done"; }));
  for (size_t i = 0; i < reported.events.size(); ++i) CHECK(reported.events[i].number() == i + 1);

  // It is over, and what it said is still there, from wherever it is asked for.
  const Reported again = RunTask(supervisor, "train/1");
  CHECK(again.status.ok());
  CHECK(again.events.size() == reported.events.size());
  const Reported rest = RunTask(supervisor, "train/1", {}, reported.events.size() - 1);
  REQUIRE(rest.events.size() == 1);
  CHECK(rest.events[0].has_finished());
  CHECK(RunTask(supervisor, "train/1", {}, reported.events.size()).events.empty());
}

TEST_CASE("a worker that dies while preparing is Unavailable, with how it ended and its last words") {
  Supervisor supervisor(TwoDevices());
  const absl::Status silent = supervisor.Prepare(Task("die silently/1"), Soon()).status();
  CHECK(absl::IsUnavailable(silent));
  CHECK_THAT(std::string(silent.message()),
             Catch::Contains("laptop/cpu0") && Catch::Contains("exit status 7"));
  const absl::Status words = supervisor.Prepare(Task("die with last words/1"), Soon()).status();
  CHECK(absl::IsUnavailable(words));
  CHECK_THAT(std::string(words.message()),
             Catch::Contains("signal 9 (Killed), perhaps out of memory: dmesg on its node says; ") &&
                 Catch::Contains("loading the model | the driver is on fire"));
  CHECK(supervisor.Prepare(Task("train/2"), Soon()).ok());  // the device is free again
}

TEST_CASE(
    "a worker that lives on without its channel, or talks nonsense, is killed, and the reason is said") {
  Supervisor supervisor(TwoDevices());
  for (const auto& [task, reason] : {std::pair("close the channel/1", "the other end of the channel is gone"),
                                     std::pair("send nonsense/1", "a message claims 4294967295 bytes")}) {
    const absl::Status status = supervisor.Prepare(Task(task), Soon()).status();
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains(std::string("was killed by signal 9 (Killed) by its agent: its channel could "
                                           "not be read: ") +
                               reason));
  }
}

TEST_CASE("why a worker could not prepare is the answer") {
  Supervisor supervisor(TwoDevices());
  const absl::Status status = supervisor.Prepare(Task("fail to prepare/1"), Soon()).status();
  CHECK(status == absl::ResourceExhaustedError("blocks 0-3 need 4 GiB"));
}

TEST_CASE("a program that is not there is Unavailable and says so") {
  Supervisor::Options options = TwoDevices();
  options.worker_program = "/no/such/medley-worker";
  Supervisor supervisor(options);
  const absl::Status status = supervisor.Prepare(Task("train/1"), Soon()).status();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("cannot execute"));
}

TEST_CASE("a worker that hangs while preparing is stopped at the deadline") {
  Supervisor supervisor(TwoDevices());
  const absl::Status status =
      supervisor.Prepare(Task("hang in prepare/1"), Now() + absl::Milliseconds(50)).status();
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(absl::IsNotFound(RunTask(supervisor, "hang in prepare/1").status));
  CHECK(supervisor.Prepare(Task("train/2"), Soon()).ok());
}

TEST_CASE("a repeat of Prepare answers as the first did, before and after it is answered") {
  Supervisor supervisor(TwoDevices());
  absl::StatusOr<v1::PrepareResponse> first, second;
  std::thread other([&] { second = supervisor.Prepare(Task("train/1"), Soon()); });
  first = supervisor.Prepare(Task("train/1"), Soon());
  other.join();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->data_plane_address() == second->data_plane_address());  // names the process
  CHECK(supervisor.Prepare(Task("train/1"), Soon())->data_plane_address() == first->data_plane_address());
  CHECK(RunTask(supervisor, "train/1").status.ok());
}

TEST_CASE(
    "a newer attempt takes the device from an older one, whose followers hear it; an older one is refused") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("hang/1", 5), Soon()).ok());
  Reported older;
  std::thread run([&] { older = RunTask(supervisor, "hang/1"); });
  REQUIRE(supervisor.Prepare(Task("train/2", 6), Soon()).ok());
  run.join();
  CHECK((absl::IsCancelled(older.status) || absl::IsNotFound(older.status)));  // had begun, or not
  const absl::Status refused = supervisor.Prepare(Task("late/3", 4), Soon()).status();
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("cpu0") && Catch::Contains("6") && Catch::Contains("4"));
  CHECK(RunTask(supervisor, "train/2").status.ok());
}

pid_t ProcessOf(const v1::PrepareResponse& prepared) {
  return std::stoi(prepared.data_plane_address().substr(std::string("address of process ").size()));
}

TEST_CASE("a worker is started when the one before it on the device is no more") {
  Supervisor supervisor(TwoDevices());
  for (uint64_t attempt = 1; attempt <= 20; ++attempt) {
    const absl::StatusOr<v1::PrepareResponse> prepared =
        supervisor.Prepare(Task("hang/" + std::to_string(attempt), attempt), Soon());
    REQUIRE(prepared.ok());
    static pid_t before = 0;
    if (before != 0) CHECK(kill(before, 0) != 0);  // reaped, so its number is nobody's
    before = ProcessOf(*prepared);
    if (attempt % 2 == 0) supervisor.Stop("hang/" + std::to_string(attempt));
  }
}

TEST_CASE("while a worker takes its time to end, everybody who wants its device waits for it") {
  Supervisor::Options options = TwoDevices();
  options.gone_patience = absl::Milliseconds(300);
  Supervisor supervisor(options);
  absl::Cleanup let_go = [] {
    ends_are_held = false;
    ends_are_held.notify_all();
  };
  const absl::StatusOr<v1::PrepareResponse> prepared = supervisor.Prepare(Task("hang/1", 1), Soon());
  REQUIRE(prepared.ok());
  const pid_t slow = ProcessOf(*prepared);
  ends_are_held = true;
  absl::Status first;
  std::atomic<bool> answered = false;
  std::thread other([&] {
    first = supervisor.Prepare(Task("hang/2", 2), Soon()).status();
    answered = true;
  });
  const auto waits = [&] {
    const std::vector<v1::AgentTask> tasks = supervisor.Tasks();
    return tasks.size() == 1 && tasks[0].task_id() == "hang/2";
  };
  while (!waits() && !answered) std::this_thread::yield();
  const absl::Status second = supervisor.Prepare(Task("hang/3", 3), Soon()).status();
  other.join();
  for (const absl::Status& status : {first, second}) {
    INFO(status.ToString());
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("was killed and does not end"));
  }
  std::move(let_go).Invoke();
  while (kill(slow, 0) == 0) std::this_thread::yield();
  CHECK(supervisor.Prepare(Task("hang/4", 4), Soon()).ok());
}

TEST_CASE("a worker that is stopped while it is started is waited for by everybody who wants its device") {
  Supervisor::Options options = TwoDevices();
  options.lease = absl::Milliseconds(120);  // what was stopped is looked at six times in it
  options.gone_patience = absl::Milliseconds(300);
  Supervisor supervisor(options);
  absl::Cleanup let_go = [] {
    start_is_held = false;
    start_is_held.notify_all();
  };
  next_start_is_held = true;
  absl::Status first;
  std::thread other([&] { first = supervisor.Prepare(Task("hang/1", 1), Soon()).status(); });
  start_is_held.wait(false);
  for (const uint64_t attempt : {2, 3}) {
    const absl::Status status =
        supervisor.Prepare(Task("hang/" + std::to_string(attempt), attempt), Soon()).status();
    INFO(status.ToString());
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("task hang/1, which had laptop/cpu0 before, "
                                                              "was stopped and is still being started"));
  }
  std::move(let_go).Invoke();
  other.join();
  CHECK(absl::IsUnavailable(first));
  CHECK_THAT(std::string(first.message()), Catch::Contains("its task was stopped"));
  CHECK(supervisor.Prepare(Task("hang/4", 4), Soon()).ok());
}

TEST_CASE("devices are independent; one that is not there is not found") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("hang/1", 9, "cpu0"), Soon()).ok());
  REQUIRE(supervisor.Prepare(Task("train/2", 1, "cpu1"), Soon()).ok());
  CHECK(RunTask(supervisor, "train/2").status.ok());
  const absl::Status status = supervisor.Prepare(Task("train/3", 1, "cpu7"), Soon()).status();
  CHECK(absl::IsNotFound(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("laptop") && Catch::Contains("cpu7"));
}

TEST_CASE("what a worker says of its end comes through; a crash comes with its signal") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("refuse/1"), Soon()).ok());
  const Reported refused = RunTask(supervisor, "refuse/1");
  CHECK(refused.status.ok());
  CHECK(refused.finished().code() == 3);
  CHECK(refused.finished().message() == "the loss is not finite");
  REQUIRE(supervisor.Prepare(Task("crash/2", 2), Soon()).ok());
  const Reported crashed = RunTask(supervisor, "crash/2");
  CHECK(crashed.status.ok());
  CHECK(crashed.finished().code() == static_cast<uint32_t>(absl::StatusCode::kUnavailable));
  CHECK_THAT(crashed.finished().message(), Catch::Contains("signal 6"));
  CHECK(crashed.finished().died());
}

TEST_CASE("a task is started once, however many follow it, and not before it is prepared") {
  Supervisor supervisor(TwoDevices());
  CHECK(absl::IsNotFound(RunTask(supervisor, "train/1").status));
  REQUIRE(supervisor.Prepare(Task("train/1"), Soon()).ok());
  v1::StartRequest only_follow = StartOf("train/1");
  only_follow.set_only_follow(true);
  const auto yes = [](const v1::WorkerEvent&) { return true; };
  CHECK(absl::IsNotFound(supervisor.Follow(only_follow, yes, [] { return true; })));
  Reported first, second;
  std::thread other([&] { second = RunTask(supervisor, "train/1", {"one"}); });
  first = RunTask(supervisor, "train/1", {"one"});
  other.join();
  REQUIRE(first.status.ok());
  REQUIRE(second.status.ok());
  CHECK(first.events.size() == second.events.size());
  CHECK(supervisor.Follow(only_follow, yes, [] { return true; }).ok());
}

TEST_CASE("a task goes on when its follower leaves, and who comes later hears all of it") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("hang/1"), Soon()).ok());
  int asked = 0;
  const auto yes = [](const v1::WorkerEvent&) { return true; };
  CHECK(absl::IsCancelled(supervisor.Follow(StartOf("hang/1"), yes, [&] { return ++asked < 3; })));
  const std::vector<v1::AgentTask> tasks = supervisor.Tasks();
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].task_id() == "hang/1");
  CHECK(tasks[0].device() == "cpu0");
  CHECK(tasks[0].attempt() == 1);
  CHECK(tasks[0].started());
  const absl::Time end = Now() + absl::Minutes(1);
  while (supervisor.Tasks()[0].allocated_bytes() != 12345) REQUIRE(Now() < end);  // the next pong says it
  CHECK(absl::IsNotFound(supervisor.FinishEarly("nobody/1")));
  CHECK(supervisor.FinishEarly("hang/1").ok());
  CHECK(supervisor.FinishEarly("hang/1").ok());  // the same wish
  const Reported reported = RunTask(supervisor, "hang/1");
  CHECK(reported.status.ok());
  CHECK(reported.finished().stopped());
  CHECK(reported.finished().stopped_at_step() == 7);
  REQUIRE(supervisor.Prepare(Task("train/2", 2), Soon()).ok());
  CHECK(absl::IsCancelled(supervisor.Follow(
      StartOf("train/2"), [](const v1::WorkerEvent&) { return false; }, [] { return true; })));
  CHECK(RunTask(supervisor, "train/2").status.ok());
}

TEST_CASE("a task that has ended is kept, but is not at work any more, and another on its device is") {
  Supervisor supervisor(TwoDevices());
  CHECK(supervisor.TasksAtWork().empty());
  REQUIRE(supervisor.Prepare(Task("train/1"), Soon()).ok());
  REQUIRE(supervisor.TasksAtWork().size() == 1);
  CHECK(supervisor.TasksAtWork()[0].task_id() == "train/1");
  size_t at_end = 0;
  CHECK(supervisor
            .Follow(
                StartOf("train/1"),
                [&](const v1::WorkerEvent& event) {
                  if (event.has_finished()) at_end = supervisor.TasksAtWork().size();
                  return true;
                },
                [] { return true; })
            .ok());
  CHECK(at_end == 1);  // who follows it has not been told yet
  CHECK(supervisor.TasksAtWork().empty());
  REQUIRE(supervisor.Tasks().size() == 1);
  CHECK(supervisor.Tasks()[0].task_id() == "train/1");
  REQUIRE(supervisor.Prepare(Task("hang/2", 2), Soon()).ok());
  REQUIRE(supervisor.TasksAtWork().size() == 1);
  CHECK(supervisor.TasksAtWork()[0].task_id() == "hang/2");
}

TEST_CASE("Stop ends a task whether it is prepared or runs, and is no error for one that is not there") {
  Supervisor supervisor(TwoDevices());
  supervisor.Stop("nobody");
  REQUIRE(supervisor.Prepare(Task("hang/1"), Soon()).ok());
  supervisor.Stop("hang/1");
  CHECK(absl::IsNotFound(RunTask(supervisor, "hang/1").status));
  REQUIRE(supervisor.Prepare(Task("hang/2", 2), Soon()).ok());
  std::atomic<bool> asked = false;
  absl::Status status;
  std::thread run([&] {
    status = supervisor.Follow(
        StartOf("hang/2"), [](const v1::WorkerEvent&) { return true; }, [&] { return asked = true; });
  });
  while (!asked) std::this_thread::yield();
  supervisor.StopAll();
  run.join();
  CHECK(absl::IsCancelled(status));
  CHECK(supervisor.Tasks().empty());
}

TEST_CASE(
    "a worker's end is its own: a process that it leaves behind, with its descriptors, holds nothing up") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("leave a helper and finish/1"), Soon()).ok());
  const absl::Time begin = Now();
  const Reported finished = RunTask(supervisor, "leave a helper and finish/1");
  CHECK(finished.status.ok());
  CHECK(finished.finished().code() == 0);
  REQUIRE(supervisor.Prepare(Task("leave a helper and die/2", 2), Soon()).ok());
  const Reported died = RunTask(supervisor, "leave a helper and die/2");
  CHECK(died.finished().died());
  CHECK_THAT(died.finished().message(), Catch::Contains("signal 9"));
  // However much it writes into the log of the one that is gone.
  REQUIRE(supervisor.Prepare(Task("leave a helper that talks and die/3", 3), Soon()).ok());
  const Reported talked = RunTask(supervisor, "leave a helper that talks and die/3");
  CHECK(talked.finished().died());
  CHECK_THAT(talked.finished().message(), Catch::Contains("signal 9"));
  CHECK(Now() - begin < absl::Minutes(4));  // the helpers live for five
}

TEST_CASE("what a worker prints in another encoding is said as text") {
  Supervisor supervisor(TwoDevices());
  const absl::Status status = supervisor.Prepare(Task("speak Latin-1/1"), Soon()).status();
  CHECK_THAT(std::string(status.message()), Catch::Contains("caf\xef\xbf\xbd \xef\xbf\xbd"));
}

TEST_CASE("a worker that gets nothing done is given up, preparing or running; one that does is not") {
  Supervisor::Options options = TwoDevices();
  options.lease = absl::Milliseconds(120);  // pings come six times in it
  Supervisor supervisor(options);
  constexpr double kSilenceSeconds = 3;  // longer than a busy machine takes to start a worker
  v1::PrepareRequest request = Task("do nothing in prepare/1");
  request.set_silence_seconds(kSilenceSeconds);
  const absl::Status prepared = supervisor.Prepare(request, Soon()).status();
  CHECK(absl::IsDeadlineExceeded(prepared));
  CHECK_THAT(std::string(prepared.message()),
             Catch::Contains("laptop/cpu0") && Catch::Contains("reading segment 3"));

  request = Task("do nothing/2", 2);
  request.set_silence_seconds(kSilenceSeconds);
  REQUIRE(supervisor.Prepare(request, Soon()).ok());
  const Reported idle = RunTask(supervisor, "do nothing/2");
  CHECK(idle.finished().died());
  CHECK_THAT(idle.finished().message(),
             Catch::Contains("got nothing done") && Catch::Contains("reading segment 3"));

  request = Task("hang in prepare/3", 3);  // for ever, but busy
  request.set_silence_seconds(kSilenceSeconds);
  const absl::Status busy = supervisor.Prepare(request, Now() + absl::Seconds(2 * kSilenceSeconds)).status();
  CHECK(absl::IsDeadlineExceeded(busy));
  CHECK_THAT(std::string(busy.message()), Catch::Contains("is still being prepared"));
  CHECK(supervisor.Tasks().empty());
}

TEST_CASE("Stop reaches a worker that is still preparing") {
  Supervisor supervisor(TwoDevices());
  absl::Status status;
  std::atomic<bool> answered = false;
  std::thread prepare([&] {
    status = supervisor.Prepare(Task("hang in prepare/1"), Soon()).status();
    answered = true;
  });
  while (!answered) {  // until it has been admitted
    supervisor.Stop("hang in prepare/1");
    std::this_thread::yield();
  }
  prepare.join();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("signal 9 (Killed) by its agent: its task was stopped"));
}

TEST_CASE(
    "a worker that talks without end is bounded: its end comes through, and a line says what was left out") {
  Supervisor supervisor(TwoDevices());
  REQUIRE(supervisor.Prepare(Task("talk/1"), Soon()).ok());
  size_t lines = 0, longest = 0;
  int64_t left_out = 0;
  v1::WorkerEvent last;
  bool waited = false;
  const absl::Status status = supervisor.Follow(
      StartOf("talk/1"),
      [&](const v1::WorkerEvent& event) {
        if (event.has_log()) ++lines, longest = std::max(longest, event.log().size());
        if (event.log().find(" left out here") != std::string::npos)
          left_out += std::atoll(event.log().c_str());
        last = event;
        return true;
      },
      [&] { return waited = true; });
  CHECK(waited);
  CHECK(status.ok());
  CHECK(last.has_finished());
  CHECK(last.finished().code() == 0);
  CHECK(lines > 100);
  CHECK(lines < 20'000);
  CHECK(left_out > 0);
  CHECK(longest <= 4096);
}

TEST_CASE("an agent out of descriptors refuses a task and is whole afterwards") {
  Supervisor supervisor(TwoDevices());
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const absl::Status refused = supervisor.Prepare(Task("train/1"), Soon()).status();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(absl::IsUnavailable(refused));
  CHECK(absl::IsNotFound(RunTask(supervisor, "train/1").status));
  supervisor.Stop("train/1");
  REQUIRE(supervisor.Prepare(Task("train/1"), Soon()).ok());
  supervisor.StopAll();
}

}  // namespace
}  // namespace medley
