#include "coordinator/orchestrator/attempt_run.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/orchestrator/fake_agents.h"

namespace medley {
namespace {

std::vector<AttemptTask> Units(int count) {
  std::vector<AttemptTask> tasks;
  for (int unit = 0; unit < count; ++unit) {
    const std::string node(1, static_cast<char>('a' + unit));
    AttemptTask& task =
        tasks.emplace_back(AttemptTask{.device = node + "/cpu0", .agent_address = node + ":1"});
    task.request.set_task_id(absl::StrCat("job/1/", unit));
    task.request.mutable_train()->set_rank(static_cast<uint32_t>(unit));
  }
  return tasks;
}

AttemptEnd RunUnits(FakeAgents& agents, int count) {
  AttemptRun run(agents, Units(count));
  return run.Run({.event = [](int, const v1::WorkerEvent&) {}});
}

TEST_CASE("an attempt whose tasks all finish is OK, launched once, and tells every event with its task") {
  FakeAgents agents;
  agents.SetTraining([](FakeWorker& worker) {
    worker.Say(StepOf(worker.request().train().rank() + 1, 1.0));
    return absl::OkStatus();
  });
  AttemptRun run(agents, Units(3));
  int launched = 0;
  std::atomic<int> matching = 0;
  const AttemptEnd end =
      run.Run({.launched = [&] { ++launched; },
               .event =
                   [&](int task, const v1::WorkerEvent& event) {
                     if (event.has_step() && event.step().step() == static_cast<uint32_t>(task) + 1)
                       ++matching;
                   }});
  CHECK(end.status.ok());
  CHECK(launched == 1);
  CHECK(matching == 3);
}

TEST_CASE(
    "what a unit says of itself is the cause, not what its peers suffered from it, whoever speaks first") {
  FakeAgents agents;
  const int culprit = GENERATE(0, 1, 2);
  CAPTURE(culprit);
  std::atomic<int> victims = 0;
  agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (static_cast<int>(worker.request().train().rank()) != culprit) {
      ++victims;
      return absl::UnavailableError("a peer is gone");
    }
    while (victims < 2) std::this_thread::yield();  // the victims end first
    return absl::ResourceExhaustedError("out of memory");
  });
  const AttemptEnd end = RunUnits(agents, 3);
  CHECK(end.status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(end.device == Units(3)[culprit].device);
  CHECK_THAT(std::string(end.status.message()),
             Catch::Contains(end.device) && Catch::Contains("out of memory"));
  CHECK(end.unreachable_devices.empty());
}

TEST_CASE("a worker that died is the cause, not the peer that says so, whoever is heard first") {
  const bool the_dead_first = GENERATE(true, false);
  const int culprit = GENERATE(0, 1);
  CAPTURE(the_dead_first, culprit);
  FakeAgents agents;
  std::atomic<bool> first_was_heard = false;
  agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    const bool is_culprit = static_cast<int>(worker.request().train().rank()) == culprit;
    while (is_culprit != the_dead_first && !first_was_heard) std::this_thread::yield();
    if (is_culprit) return worker.Die("the worker of x was killed by signal 9 (Killed)");
    return absl::UnavailableError("rank is gone: Connection reset");
  });
  AttemptRun run(agents, Units(2));
  const AttemptEnd end = run.Run({.event = [&](int, const v1::WorkerEvent& event) {
    if (event.has_finished()) first_was_heard = true;
  }});
  CHECK(absl::IsUnavailable(end.status));
  CHECK(end.device == Units(2)[culprit].device);
  CHECK_THAT(std::string(end.status.message()), Catch::Contains("signal 9"));
  CHECK(end.unreachable_devices.empty());
}

TEST_CASE("an agent that is gone is the cause, not the peer that misses its worker") {
  FakeAgents agents;
  agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (worker.request().train().rank() == 0) {
      while (agents.begun() < 2) std::this_thread::yield();
      return absl::UnavailableError("rank 1 is gone: Connection reset");
    }
    worker.AwaitEnd();
    return absl::OkStatus();
  });
  AttemptRun run(agents, Units(2));
  const AttemptEnd end = run.Run({.event = [&](int, const v1::WorkerEvent& event) {
    if (event.has_finished()) agents.TakeDown("b:1");  // what the peer saw is seen here, too
  }});
  CHECK(end.device == "b/cpu0");
  CHECK(end.unreachable_devices == std::vector<std::string>{"b/cpu0"});
}

TEST_CASE("the tasks of an attempt have one secret of 32 bytes, which no other attempt has") {
  FakeAgents agents;
  CHECK(RunUnits(agents, 3).status.ok());
  CHECK(RunUnits(agents, 2).status.ok());
  const std::vector<v1::PrepareRequest> tasks = agents.trainings();
  REQUIRE(tasks.size() == 5);
  for (const v1::PrepareRequest& task : tasks) CHECK(task.attempt_secret().size() == 32);
  CHECK(tasks[0].attempt_secret() == tasks[1].attempt_secret());
  CHECK(tasks[0].attempt_secret() == tasks[2].attempt_secret());
  CHECK(tasks[3].attempt_secret() == tasks[4].attempt_secret());
  CHECK(tasks[0].attempt_secret() != tasks[3].attempt_secret());
}

TEST_CASE("a task without peers gets no secret") {
  FakeAgents agents;
  std::vector<AttemptTask> tasks = Units(1);
  tasks[0].request.mutable_profile();
  tasks[0].request.clear_train();
  AttemptRun run(agents, tasks);
  CHECK(run.Run({.event = [](int, const v1::WorkerEvent&) {}}).status.ok());
  REQUIRE(agents.requests().size() == 1);
  CHECK(agents.requests()[0].attempt_secret().empty());
}

TEST_CASE("an aborted peer is the least of causes") {
  FakeAgents agents;
  agents.SetTraining([](FakeWorker& worker) -> absl::Status {
    if (worker.request().train().rank() == 1) return absl::UnavailableError("was killed by signal 11");
    return absl::AbortedError("unit 1 gave up");
  });
  const AttemptEnd end = RunUnits(agents, 2);
  CHECK(end.device == "b/cpu0");
  CHECK(absl::IsUnavailable(end.status));
}

TEST_CASE("the first failure ends the tasks that go on working") {
  FakeAgents agents;
  agents.SetTraining([](FakeWorker& worker) -> absl::Status {
    if (worker.request().train().rank() == 1) return absl::InternalError("broken");
    worker.AwaitEnd();
    return absl::OkStatus();
  });
  const AttemptEnd end = RunUnits(agents, 3);
  CHECK(end.device == "b/cpu0");
  CHECK(absl::IsInternal(end.status));
}

TEST_CASE("an agent that goes while its task runs is told apart from a worker that dies") {
  FakeAgents agents;
  agents.SetTraining(TrainForEver);
  AttemptRun run(agents, Units(2));
  const AttemptEnd end =
      run.Run({.launched = [&] { agents.TakeDown("b:1"); }, .event = [](int, const v1::WorkerEvent&) {}});
  CHECK(end.device == "b/cpu0");
  CHECK(end.unreachable_devices == std::vector<std::string>{"b/cpu0"});
}

TEST_CASE(
    "when one task cannot be prepared the others are stopped, also those still preparing, and nothing "
    "starts") {
  FakeAgents agents;
  agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (request.train().rank() == 1) return absl::ResourceExhaustedError("does not fit");
    if (request.train().rank() == 2) {
      agents.AwaitStop(request.task_id());  // would go on for ever
      return absl::UnavailableError("was killed by signal 9");
    }
    return absl::OkStatus();
  });
  std::atomic<int> started = 0;
  agents.SetTraining([&](FakeWorker&) {
    ++started;
    return absl::OkStatus();
  });
  const AttemptEnd end = RunUnits(agents, 3);
  CHECK(end.status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(end.device == "b/cpu0");
  CHECK(started == 0);
  const std::vector<std::string> stopped = agents.stopped();
  CHECK(std::count(stopped.begin(), stopped.end(), "job/1/0") >= 1);
}

TEST_CASE("a worker that dies while preparing is the cause, and its agent is not unreachable") {
  FakeAgents agents;
  agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (request.train().rank() == 1) return absl::AbortedError("was killed by signal 11");
    agents.AwaitStop(request.task_id());
    return absl::AbortedError("was killed by signal 9");
  });
  const AttemptEnd end = RunUnits(agents, 3);
  CHECK(end.device == "b/cpu0");
  CHECK_THAT(std::string(end.status.message()), Catch::Contains("signal 11"));
  CHECK(end.unreachable_devices.empty());
  CHECK_FALSE(end.prepared);
}

TEST_CASE("tasks that are left go on, and another run takes them up where it was heard last") {
  FakeAgents agents;
  agents.SetTraining(TrainForEver);
  std::atomic<int> heard = 0;
  {
    AttemptRun run(agents, Units(2));
    const AttemptEnd end = run.Run({.event = [&](int, const v1::WorkerEvent&) {
      ++heard;
      while (agents.begun() < 2) std::this_thread::yield();
      run.Leave();  // with the only step
    }});
    CHECK(end.left);
    CHECK(end.status.ok());
  }
  CHECK(heard == 1);
  CHECK(agents.working() == 2);
  CHECK(agents.stopped().empty());

  std::vector<AttemptTask> tasks = Units(2);
  tasks[0].after_event = 1;
  AttemptRun again(agents, tasks);
  std::atomic<int> steps = 0;
  std::thread asks([&] { again.FinishEarly(); });
  const AttemptEnd end = again.TakeUp(
      {.event =
           [&](int task, const v1::WorkerEvent& event) {
             if (event.has_step()) ++steps;
             if (task == 0 && event.has_finished()) {  // the other unit hears of it from this one
               v1::StopRequest request;
               request.set_task_id("job/1/1");
               request.set_after_checkpoint(true);
               agents.Stop("b:1", request, [](const absl::Status&) {});
             }
           }},
      absl::Seconds(20));
  asks.join();
  CHECK(steps == 0);
  CHECK(end.status.ok());
  CHECK(end.stopped);
}

TEST_CASE("tasks that are left before all are prepared are stopped, and nothing starts") {
  FakeAgents agents;
  AttemptRun run(agents, Units(2));
  agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (request.train().rank() == 0) {
      run.Leave();
      return absl::OkStatus();
    }
    agents.AwaitStop(request.task_id());  // would go on for ever
    return absl::AbortedError("was killed by signal 9");
  });
  const AttemptEnd end = run.Run({.event = [](int, const v1::WorkerEvent&) {}});
  CHECK(absl::IsCancelled(end.status));
  CHECK_FALSE(end.left);
  CHECK(agents.begun() == 0);
}

TEST_CASE("a wish to finish early goes to another task while none has taken it, and then to nobody") {
  FakeAgents agents;
  std::vector<std::string> asked;
  std::atomic<bool> taken = false;
  agents.SetStopAnswer([&](const v1::StopRequest& request) -> absl::Status {
    if (!request.after_checkpoint()) return absl::OkStatus();
    asked.push_back(request.task_id());
    if (asked.size() == 1) return absl::DeadlineExceededError("Deadline Exceeded");
    if (asked.size() == 2) return absl::UnavailableError("connection refused");
    taken = true;
    return absl::OkStatus();
  });
  agents.SetTraining([&](FakeWorker& worker) {
    while (!taken) std::this_thread::yield();
    return worker.FinishedAt(2);
  });
  AttemptRun run(agents, Units(2));
  const AttemptEnd end = run.Run({.launched =
                                      [&] {
                                        for (int i = 0; i < 6; ++i) run.FinishEarly();
                                        taken = true;  // nobody may have
                                      },
                                  .event = [](int, const v1::WorkerEvent&) {}});
  CHECK(asked == std::vector<std::string>{"job/1/0", "job/1/1", "job/1/0"});
  CHECK(end.status.ok());
  CHECK(end.stopped);
}

TEST_CASE("an agent that is still tried again when the others have ended is found to be gone") {
  FakeAgents agents;
  std::atomic<bool> ends = false;
  agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    while (!ends) std::this_thread::yield();
    if (worker.request().train().rank() == 0)
      return absl::UnavailableError("rank 1 is gone: Connection reset");
    worker.AwaitEnd();
    return absl::OkStatus();
  });
  AttemptRun run(agents, Units(2));
  run.Run({.launched = [&] { run.Leave(); }, .event = [](int, const v1::WorkerEvent&) {}});
  agents.TakeDown("b:1");
  ends = true;
  AttemptRun again(agents, Units(2));
  const AttemptEnd end = again.TakeUp({.event = [](int, const v1::WorkerEvent&) {}}, absl::Hours(1));
  CHECK_FALSE(end.status.ok());
  CHECK(end.unreachable_devices == std::vector<std::string>{"b/cpu0"});
}

// Whose tasks have ended, and been heard to, before Start returns.
class QuickAgents final : public FakeAgents {
 public:
  std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                     absl::Duration patience, TaskListener listener) override {
    const auto ended = std::make_shared<absl::Notification>();
    listener.ended = [ended, told = listener.ended](const absl::Status& status) {
      told(status);
      ended->Notify();
    };
    auto task = FakeAgents::Start(agent_address, request, patience, listener);
    ended->WaitForNotification();
    return task;
  }
};

TEST_CASE("an abort that comes when all tasks have ended well changes nothing") {
  QuickAgents agents;
  const bool fails = GENERATE(false, true);
  CAPTURE(fails);
  agents.SetTraining([fails](FakeWorker& worker) -> absl::Status {
    if (fails && worker.request().train().rank() == 1) return absl::InvalidArgumentError("no");
    return absl::OkStatus();
  });
  AttemptRun run(agents, Units(2));
  const AttemptEnd end = run.Run({.launched = [&] { run.Abort(absl::CancelledError("node a is lost")); },
                                  .event = [](int, const v1::WorkerEvent&) {}});
  CHECK(end.status == (fails ? absl::CancelledError("node a is lost") : absl::OkStatus()));
}

TEST_CASE("what is taken up and is not there any more is lost") {
  FakeAgents agents;
  AttemptRun run(agents, Units(1));
  AttemptEnd end = run.TakeUp({.event = [](int, const v1::WorkerEvent&) {}}, absl::Seconds(20));
  CHECK(absl::IsUnavailable(end.status));
  CHECK_THAT(std::string(end.status.message()), Catch::Contains("a/cpu0") && Catch::Contains("started anew"));
  CHECK(end.unreachable_devices.empty());
  agents.TakeDown("a:1");
  AttemptRun gone(agents, Units(1));
  end = gone.TakeUp({.event = [](int, const v1::WorkerEvent&) {}}, absl::Milliseconds(20));
  CHECK(end.unreachable_devices == std::vector<std::string>{"a/cpu0"});
}

TEST_CASE("a task is given the addresses of the peers that it names, and all if it names none") {
  FakeAgents agents;
  agents.SetPeers([](const v1::PrepareRequest& request) -> std::vector<uint32_t> {
    if (request.train().rank() == 2) return {};
    return {1 - request.train().rank(), 70000};  // nobody is the latter
  });
  CHECK(RunUnits(agents, 3).status.ok());
  const std::vector<v1::StartRequest> starts = agents.starts();
  REQUIRE(starts.size() == 3);
  const auto addresses = [&](int task) {
    return std::vector<std::string>(starts[task].data_plane_addresses().begin(),
                                    starts[task].data_plane_addresses().end());
  };
  const std::string first = "address of job/1/0", second = "address of job/1/1", third = "address of job/1/2";
  CHECK(addresses(0) == std::vector<std::string>{"", second, ""});
  CHECK(addresses(1) == std::vector<std::string>{first, "", ""});
  CHECK(addresses(2) == std::vector<std::string>{first, second, third});
}

TEST_CASE("what the tasks answered when they were prepared may end the attempt") {
  FakeAgents agents;
  AttemptRun run(agents, Units(2));
  const AttemptEnd end =
      run.Run({.prepared =
                   [](const std::vector<v1::PrepareResponse>& responses) {
                     return absl::FailedPreconditionError(responses[1].data_plane_address());
                   },
               .event = [](int, const v1::WorkerEvent&) {}});
  CHECK(end.status == absl::FailedPreconditionError("address of job/1/1"));
  CHECK(end.prepared);
  CHECK(agents.working() == 0);
  CHECK(agents.stopped().size() >= 2);
}

TEST_CASE("an abort is the cause whatever follows it, before and during the run") {
  FakeAgents agents;
  agents.SetTraining(TrainForEver);
  AttemptRun before(agents, Units(2));
  before.Abort(absl::CancelledError("not wanted"));
  AttemptEnd end = before.Run({.event = [](int, const v1::WorkerEvent&) {}});
  CHECK(absl::IsCancelled(end.status));
  CHECK(end.device == "");

  AttemptRun during(agents, Units(2));
  end = during.Run({.launched = [&] { during.Abort(absl::CancelledError("enough")); },
                    .event = [](int, const v1::WorkerEvent&) {}});
  CHECK(end.status == absl::CancelledError("enough"));
}

}  // namespace
}  // namespace medley
