// A coordinator that ends, and the one that comes after it.
#include <atomic>
#include <catch2/catch.hpp>

#include "absl/synchronization/notification.h"
#include "coordinator/orchestrator/orchestrator_under_test.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

// Steps that a job makes while nobody listens are made by this.
class Pace {
 public:
  absl::Status Train(FakeWorker& worker) {
    if (worker.request().train().rank() != 0) return absl::OkStatus();
    for (uint32_t step = 1; step <= 6; ++step) {
      {
        MutexLock lock(mutex_);
        changed_.WaitUntil(mutex_, Now() + kPatience, [&] { return allowed_ >= step; });
      }
      worker.Say(StepOf(step, 10.0 - step));
      if (step % 2 == 0) worker.Say(CheckpointAt(step, absl::StrCat("/checkpoints/step-", step)));
      MutexLock lock(mutex_);
      made_ = step;
      changed_.NotifyAll();
    }
    return absl::OkStatus();
  }
  void Allow(uint32_t steps) {
    MutexLock lock(mutex_);
    allowed_ = steps;
    changed_.NotifyAll();
  }
  bool AwaitMade(uint32_t steps) {
    MutexLock lock(mutex_);
    return changed_.WaitUntil(mutex_, Now() + kPatience, [&] { return made_ >= steps; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  uint32_t allowed_ = 0, made_ = 0;
};

v1::RegisterRequest WithTasksOf(const v1::Job& job, v1::RegisterRequest node) {
  for (const v1::LaunchedTask& launched : job.tasks()) {
    v1::AgentTask& task = *node.add_tasks();
    task.set_task_id(launched.task_id());
    task.set_attempt(job.launch());
    task.set_started(true);
  }
  return node;
}

TEST_CASE("ten coordinators one after another cost a job that trains no step and no restart") {
  Pace pace;
  OrchestratorSite site;
  site.agents.SetTraining([&](FakeWorker& worker) { return pace.Train(worker); });
  site.Register(FakeNode("a", 2));
  pace.Allow(1);
  const std::string id = site.Submit(PinnedJob("healthy", {"a/cpu0", "a/cpu1"}));
  v1::Job job = site.AwaitJob(
      id, [&](const v1::Job& j) { return j.last_step().step() == 1 && site.agents.begun() == 2; });
  for (int life = 0; life < 10; ++life) {
    site.orchestrator.reset();
    job = *site.store->GetJob(id);
    CHECK(job.state() == v1::JOB_STATE_RUNNING);
    if (life == 4) {  // the job goes on meanwhile
      pace.Allow(4);
      REQUIRE(pace.AwaitMade(4));
    }
    site.Start();
    const absl::StatusOr<v1::RegisterResponse> registered =
        site.orchestrator->Register(WithTasksOf(job, FakeNode("a", 2)));
    REQUIRE(registered.ok());
    CHECK(registered->stop_tasks().empty());
    CHECK_FALSE(site.AllDevicesAreFree());  // they are the job's again
    if (life >= 4) site.AwaitJob(id, [](const v1::Job& j) { return j.last_step().step() == 4; });
  }
  CHECK(site.agents.stopped().empty());
  pace.Allow(6);
  job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.attempt() == 1);
  CHECK(job.restarts() == 0);
  CHECK(job.checkpoint_step() == 6);
  const std::vector<v1::StepMetrics> steps = *site.store->ListSteps(id, 0);
  REQUIRE(steps.size() == 6);
  for (uint32_t i = 0; i < 6; ++i) CHECK(steps[i].loss() == 9.0 - i);
  CHECK(site.agents.trainings().size() == 2);  // launched once
}

TEST_CASE("a job that ends while there is no coordinator has ended when there is one") {
  Pace pace;
  OrchestratorSite site;
  site.agents.SetTraining([&](FakeWorker& worker) { return pace.Train(worker); });
  site.Register(FakeNode("a"));
  pace.Allow(1);
  const std::string id = site.Submit(PinnedJob("quick", {"a/cpu0"}));
  site.AwaitJob(id, [](const v1::Job& j) { return j.last_step().step() == 1; });
  site.orchestrator.reset();
  pace.Allow(6);
  REQUIRE(pace.AwaitMade(6));
  site.Start();
  CHECK(site.Await(id, v1::JOB_STATE_DONE).last_step().step() == 6);
}

TEST_CASE(
    "a job that is taken up goes on to teach what its steps take, where it is known what was predicted") {
  const bool is_known = GENERATE(true, false);
  CAPTURE(is_known);
  absl::Notification may_step;
  std::vector<v1::WorkerEvent> steps;
  OrchestratorSite site;
  site.agents.SetTraining([&](FakeWorker& worker) {
    may_step.WaitForNotificationWithTimeout(kPatience);
    for (const v1::WorkerEvent& step : steps) worker.Say(step);
    return absl::OkStatus();
  });
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(PinnedJob("teaches", {"a/cpu0"}));
  const v1::Job job = site.Await(id, v1::JOB_STATE_RUNNING);
  site.orchestrator.reset();

  absl::StatusOr<v1::PlanGrounds> grounds = site.store->GetPlanGrounds(id);
  REQUIRE(grounds.ok());
  const absl::StatusOr<TrainingSpec> training = ResolveSpec(grounds->spec(), id);
  const absl::StatusOr<Plan> plan = DecodePlan(job.plan().plan());
  REQUIRE(training.ok());
  REQUIRE(plan.ok());
  const absl::StatusOr<PlannedJob> planned = PlannedFrom(*grounds, *training, *plan);
  REQUIRE(planned.ok());
  CHECK(planned->prediction.step_seconds == job.plan().predicted_step_seconds());
  const auto& timeline = planned->prediction.ranks[0].timeline;
  for (uint32_t step = 1; step <= 5; ++step) {
    v1::MeasuredStep& measured = *steps.emplace_back().mutable_measured();
    measured.set_step(step);
    measured.set_started_at_seconds(step);
    for (const auto& instruction : timeline) {
      measured.add_start_seconds(1.5 * instruction.start_seconds);
      measured.add_end_seconds(1.5 * instruction.end_seconds);
    }
  }
  if (!is_known) {
    grounds->set_launch(job.launch() + 1);
    REQUIRE(site.store->PutPlanGrounds(*grounds).ok());
  }
  site.Start();
  may_step.Notify();
  site.Await(id, v1::JOB_STATE_DONE);
  const std::vector<std::string> log = site.Log(id);
  const auto is_said = [&](const std::string& what) {
    return std::any_of(log.begin(), log.end(),
                       [&](const std::string& line) { return absl::StrContains(line, what); });
  };
  CHECK(is_said("passes of fake take 1.") == is_known);
  CHECK(is_said("nothing is learnt from this attempt's steps") == !is_known);
  const std::vector<v1::DeviceProfile> profiles = *site.store->ListProfiles();
  REQUIRE(profiles.size() == 1);
  CHECK((profiles[0].correction().factor() > 1.1) == is_known);
  const absl::StatusOr<v1::Trace> trace = site.store->GetTrace(id);
  REQUIRE(trace.ok() == is_known);
  if (!is_known) return;
  CHECK(trace->step() == 5);
  CHECK(trace->lanes(0).instructions(0).predicted_end_seconds() == timeline[0].end_seconds);
}

TEST_CASE(
    "a job that was to end after a checkpoint does so although another coordinator has come meanwhile") {
  const bool was_heard = GENERATE(true, false);
  CAPTURE(was_heard);
  std::atomic<bool> is_reachable = was_heard, may_end = false;
  OrchestratorSite site;
  site.agents.SetStopAnswer([&](const v1::StopRequest& request) {
    return request.after_checkpoint() && !is_reachable ? absl::DeadlineExceededError("Deadline Exceeded")
                                                       : absl::OkStatus();
  });
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    worker.AwaitEnd();
    while (!may_end) std::this_thread::yield();
    return worker.FinishedAt(2);
  });
  site.Register(FakeNode("a"));
  v1::JobSpec spec = PinnedJob("saves", {"a/cpu0"});
  spec.mutable_checkpoint()->set_directory("/nowhere/checkpoints");
  const std::string id = site.Submit(spec);
  site.Await(id, v1::JOB_STATE_RUNNING);
  CHECK(site.Cancel(id, /*after_checkpoint=*/true).ok());
  site.orchestrator.reset();
  CHECK(site.store->GetJob(id)->state() == v1::JOB_STATE_RUNNING);
  is_reachable = may_end = true;
  site.Start();
  const v1::Job job = site.AwaitJob(id, [](const v1::Job& j) { return j.state() != v1::JOB_STATE_RUNNING; });
  CHECK(job.state() == v1::JOB_STATE_CANCELLED);
  CHECK_THAT(job.state_reason(), Catch::Contains("by the user after a checkpoint"));
  CHECK(site.agents.trainings().size() == 1);
}

TEST_CASE("a job whose coordinator was killed while it was being cancelled is not taken up again") {
  const bool trains = GENERATE(true, false);
  CAPTURE(trains);
  std::atomic<bool> may_end = false;
  OrchestratorSite site;
  // The agent is slow to say that it stops the worker, and until then the job is being cancelled.
  site.agents.SetStopAnswer([&](const v1::StopRequest&) {
    while (!may_end) std::this_thread::yield();
    return absl::OkStatus();
  });
  site.agents.SetTraining(TrainForEver);
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(PinnedJob("unwanted", {"a/cpu0"}));
  const v1::Job running = site.Await(id, v1::JOB_STATE_RUNNING);
  const absl::StatusOr<v1::Job> answer = site.Cancel(id);
  REQUIRE(answer.ok());
  CHECK(answer->asked_to_end() == v1::JOB_ENDING_AT_ONCE);
  CHECK(site.Cancel(id)->state() == v1::JOB_STATE_RUNNING);
  // What is on disk then is what the next coordinator finds.
  v1::Job kept = *site.store->GetJob(id);
  CHECK(kept.asked_to_end() == v1::JOB_ENDING_AT_ONCE);
  if (!trains) {
    kept.set_state(v1::JOB_STATE_LAUNCHING);
    kept.clear_tasks();
  }
  may_end = true;
  site.orchestrator.reset();
  REQUIRE(site.store->UpdateJob(kept).ok());
  site.Start();
  const v1::Job job = site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(job.state_reason() == "cancelled by the user");
  CHECK(job.asked_to_end() == v1::JOB_ENDING_UNSPECIFIED);
  CHECK(site.agents.trainings().size() == 1);
  CHECK(site.orchestrator->Register(WithTasksOf(running, FakeNode("a")))->stop_tasks().size() == 1);
}

// A job on node "a" that trains for ever and may save checkpoints; no worker hears that it is to end after one before `is_reachable`, which must
// outlive the site's agents.
std::string SubmitToUnreachable(OrchestratorSite& site, const std::atomic<bool>& is_reachable) {
  site.agents.SetStopAnswer([&is_reachable](const v1::StopRequest& request) {
    return request.after_checkpoint() && !is_reachable ? absl::DeadlineExceededError("Deadline Exceeded")
                                                       : absl::OkStatus();
  });
  site.agents.SetTraining(TrainForEver);
  site.Register(FakeNode("a"));
  v1::JobSpec spec = PinnedJob("saves", {"a/cpu0"});
  spec.mutable_checkpoint()->set_directory("/nowhere/checkpoints");
  return site.Submit(spec);
}

TEST_CASE(
    "a job leaves a drained node although another coordinator has come before an agent has heard of it") {
  std::atomic<bool> is_reachable = false;
  OrchestratorSite site;
  const std::string id = SubmitToUnreachable(site, is_reachable);
  site.Await(id, v1::JOB_STATE_RUNNING);
  v1::DrainNodeRequest drain;
  drain.set_node("a");
  REQUIRE(site.orchestrator->DrainNode(drain)->leaving_size() == 1);
  site.orchestrator.reset();
  CHECK(site.store->GetJob(id)->state() == v1::JOB_STATE_RUNNING);
  is_reachable = true;
  site.Start();
  const v1::Job job = site.Await(id, v1::JOB_STATE_RECOVERING);
  CHECK(job.restarts() == 0);
  const std::vector<std::string> log = site.Log(id);
  CHECK(std::count(log.begin(), log.end(), "recovering: node a is drained") == 1);
  CHECK(site.agents.trainings().size() == 1);
}

TEST_CASE("a job leaves a node whose agent is stopped although another coordinator has come in between") {
  std::atomic<bool> is_reachable = false;
  OrchestratorSite site;
  const std::string id = SubmitToUnreachable(site, is_reachable);
  const v1::Job running = site.Await(id, v1::JOB_STATE_RUNNING);
  v1::LeaveRequest leave;
  leave.set_node("a");
  leave.set_incarnation(1);
  REQUIRE(site.orchestrator->Leave(leave)->leaving_jobs() == 1);
  site.orchestrator.reset();
  is_reachable = true;
  site.Start();
  CHECK(absl::IsNotFound(site.orchestrator->Leave(leave).status()));  // and it says it again
  v1::RegisterRequest leaving = WithTasksOf(running, FakeNode("a"));
  leaving.set_leaving(true);
  site.Register(leaving);
  CHECK(site.Await(id, v1::JOB_STATE_RECOVERING).restarts() == 0);
  const std::vector<std::string> log = site.Log(id);
  CHECK(std::count(log.begin(), log.end(), "recovering: the agent of node a is stopped") == 1);
}

TEST_CASE(
    "a job whose agent was started anew while there was no coordinator is launched again, and counts a "
    "restart") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(PinnedJob("tiny", {"a/cpu0"}));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.orchestrator.reset();
  v1::Job job = *site.store->GetJob(id);
  job.mutable_tasks(0)->set_task_id("nobody knows it");
  REQUIRE(site.store->UpdateJob(job).ok());
  site.agents.SetTraining(TrainThreeSteps);
  site.Start();
  site.Register(FakeNode("a", 1, /*incarnation=*/2));
  CHECK(site.Await(id, v1::JOB_STATE_DONE).restarts() == 1);
}

TEST_CASE("jobs that waited or were being launched go on, and count no restart") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<bool> hangs = true;
  site.agents.SetPreparation([&](const v1::PrepareRequest& request) -> absl::Status {
    if (!request.has_train() || !hangs) return absl::OkStatus();
    site.agents.AwaitStop(request.task_id());
    return absl::AbortedError("was killed by signal 9");
  });
  const std::string launching = site.Submit(FakeJob("launching"));
  REQUIRE(site.agents.AwaitTrainings(1));
  const std::string queued = site.Submit(FakeJob("queued"));
  const std::string ended = site.Submit(FakeJob("ended"));
  REQUIRE(site.Cancel(ended).ok());
  site.orchestrator.reset();
  CHECK(site.store->GetJob(launching)->state() == v1::JOB_STATE_QUEUED);
  CHECK(site.store->GetJob(queued)->state() == v1::JOB_STATE_QUEUED);
  hangs = false;
  site.Start();
  site.Register(FakeNode("a"));
  CHECK(site.Await(launching, v1::JOB_STATE_DONE).restarts() == 0);
  CHECK(site.Await(queued, v1::JOB_STATE_DONE).restarts() == 0);
  CHECK(site.orchestrator->journal().Get(ended)->state() == v1::JOB_STATE_CANCELLED);
}

TEST_CASE("an agent is told to stop what nobody waits for any more") {
  OrchestratorSite site;
  v1::RegisterRequest node = FakeNode("a");
  node.add_tasks()->set_task_id("old-1/7/0");
  const absl::StatusOr<v1::RegisterResponse> registered = site.orchestrator->Register(node);
  REQUIRE(registered.ok());
  REQUIRE(registered->stop_tasks_size() == 1);
  CHECK(registered->stop_tasks(0) == "old-1/7/0");
}

TEST_CASE("an agent that leaves in an orderly way costs its jobs no restart, and they go on elsewhere") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(FakeJob("tiny"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  site.agents.SetTraining(TrainThreeSteps);
  v1::DeregisterRequest leaves;
  leaves.set_node("b");
  leaves.set_incarnation(1);
  site.orchestrator->Deregister(leaves);
  const v1::Job job = site.Await(id, v1::JOB_STATE_DONE);
  CHECK(job.restarts() == 0);
  CHECK(job.attempt() == 2);
  CHECK(job.plan().plan().units_size() == 1);
  CHECK(absl::IsNotFound(site.Renew("b").status()));
}

}  // namespace
}  // namespace medley
