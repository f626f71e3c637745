// A running job is planned anew: because a user asks, for devices that have come, or because its own have become faster or slower.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/orchestrator_under_test.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "runtime/ir/program/program.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

absl::StatusOr<v1::ReplanJobResponse> Replan(OrchestratorSite& site, const std::string& id, bool force) {
  v1::ReplanJobRequest request;
  request.set_job_id(id);
  request.set_force(force);
  return site.orchestrator->Replan(request);
}

TEST_CASE(
    "a running job is planned anew with a device that came, and goes on from a checkpoint without a restart "
    "counted") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("grows"));
  site.AwaitJob(id, [](const v1::Job& job) {
    return job.state() == v1::JOB_STATE_RUNNING && job.launch_seconds() > 0;
  });
  site.Register(FakeNode("b"));
  const absl::StatusOr<v1::ReplanJobResponse> replanned = Replan(site, id, /*force=*/true);
  INFO(replanned.status().ToString());
  REQUIRE(replanned.ok());
  CHECK(replanned->replans());
  CHECK(replanned->step_seconds_then() < replanned->step_seconds_now());
  CHECK_THAT(replanned->decision(), Catch::Contains("planned anew: a step takes"));
  const v1::Job job = site.AwaitJob(
      id, [](const v1::Job& j) { return j.attempt() == 2 && j.state() == v1::JOB_STATE_RUNNING; });
  CHECK(job.plan().plan().units_size() == 2);
  CHECK(job.restarts() == 0);
  REQUIRE(site.Cancel(id).ok());
}

TEST_CASE("a job is not planned anew where that gains nothing, or cannot be") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("stays"));
  site.AwaitJob(id, [](const v1::Job& job) {
    return job.state() == v1::JOB_STATE_RUNNING && job.last_step().step() == 1;
  });
  const absl::StatusOr<v1::ReplanJobResponse> same = Replan(site, id, /*force=*/false);
  REQUIRE(same.ok());
  CHECK_FALSE(same->replans());
  CHECK_THAT(same->decision(), Catch::Contains("stays as it is"));
  CHECK(absl::IsNotFound(Replan(site, "nobody-1", true).status()));
  REQUIRE(site.Cancel(id).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(absl::IsFailedPrecondition(Replan(site, id, true).status()));
  const std::string unsaved = site.Submit(FakeJob("unsaved"));
  site.Await(unsaved, v1::JOB_STATE_RUNNING);
  CHECK_THAT(std::string(Replan(site, unsaved, true).status().message()),
             Catch::Contains("checkpoint.directory"));
}

TEST_CASE("planning anew ends when nobody waits for it any more, and changes nothing") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(SavingJob("stays"));
  site.Await(id, v1::JOB_STATE_RUNNING);
  std::atomic<bool> measures = false;
  site.agents.SetProfile([&](FakeWorker& worker) -> absl::Status {
    measures = true;
    worker.AwaitEnd();
    return absl::OkStatus();
  });
  site.Register(FakeNode("b", 1, 1, "of another kind"));
  v1::ReplanJobRequest request;
  request.set_job_id(id);
  request.set_force(true);
  const absl::Status ended = site.orchestrator->Replan(request, [&] { return measures.load(); }).status();
  CHECK(absl::IsCancelled(ended));
  CHECK_THAT(std::string(ended.message()), Catch::Contains("nobody waits for the answer"));
  for (const v1::Node& node : site.orchestrator->Nodes()) CHECK(node.jobs().empty() == (node.name() == "b"));
  CHECK(site.orchestrator->journal().Get(id)->attempt() == 1);
}

TEST_CASE(
    "a job grows by itself at a checkpoint when the rest of it gains more than the pause, and logs both "
    "figures") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  std::atomic<bool> save = false;
  site.agents.SetTraining([&](FakeWorker& worker) -> absl::Status {
    if (worker.request().train().rank() == 0) {
      for (uint32_t step = 1; step <= 4; ++step) worker.Say(StepOf(step, 3.0, /*seconds=*/50));
      while (!save && !worker.asked_to_finish()) std::this_thread::yield();
      worker.Say(CheckpointAt(4, "/nowhere/checkpoints/step-4"));
    }
    worker.AwaitEnd();
    return worker.asked_to_finish() ? worker.FinishedAt(5) : absl::OkStatus();
  });
  const std::string id = site.Submit(SavingJob("grows"));
  site.AwaitJob(id, [](const v1::Job& job) { return job.measured_step_seconds() > 0; });
  // Of those that wait, nobody waits for what is free.
  v1::JobSpec held = FakeJob("held");
  held.mutable_scheduling()->set_hold(true);
  site.Submit(held);
  site.Submit(PinnedJob("absent", {"x/cpu0"}));
  site.Register(FakeNode("b"));
  save = true;
  const v1::Job job = site.AwaitJob(id, [](const v1::Job& j) { return j.attempt() == 2; });
  CHECK(job.restarts() == 0);
  bool told = false;
  for (const std::string& line : site.Log(id))
    told |= absl::StrContains(line, "a step takes 50 s now and would take");
  CHECK(told);
  REQUIRE(site.Cancel(id).ok());
}

// Times of a step of a worker that holds the whole model: passes take `factor` times what the made-up profile says of a sequence, all else
// takes nothing.
v1::WorkerEvent TimesOf(const FakeWorker& worker, uint32_t step, double factor) {
  const v1::TrainTask& task = worker.request().train();
  const Plan plan = *DecodePlan(task.plan());
  const TrainingShape shape = ResolveSpec(task.spec(), task.job_id())->shape;
  v1::WorkerEvent event;
  event.mutable_measured()->set_step(step);
  double now = 0;
  for (const Instruction& instruction : CompileStep(plan, task.rank(), shape, Purpose::kTrain).instructions) {
    event.mutable_measured()->add_start_seconds(now);
    if (instruction.kind == InstructionKind::kForward)
      now += factor * 0.0211 * plan.routes[task.rank()].micro_batch_sequences;
    if (instruction.kind == InstructionKind::kBackward)
      now += factor * 0.0411 * plan.routes[task.rank()].micro_batch_sequences;
    event.mutable_measured()->add_end_seconds(now);
  }
  return event;
}

uint32_t SequencesOf(const v1::Plan& plan, const std::string& device) {
  uint32_t sequences = 0;
  for (const v1::Route& route : plan.routes()) {
    if (plan.units(static_cast<int>(route.units(0))).devices(0) == device)
      sequences += route.micro_batches() * route.micro_batch_sequences();
  }
  return sequences;
}

// Twenty steps in each attempt, and a checkpoint: `slow` takes three times as long as its profile says in all of them. The first
// attempt has its checkpoint once the coordinator has learnt that.
FakeAgents::Training Trains(OrchestratorSite& site, const std::string& slow) {
  return [&site, slow](FakeWorker& worker) -> absl::Status {
    const v1::TrainTask& task = worker.request().train();
    const bool is_slow = task.plan().units(static_cast<int>(task.rank())).devices(0) == slow;
    const bool first = task.job_attempt() == 1;
    const uint32_t from = first ? 1 : 21;
    for (uint32_t step = from; step < from + 20; ++step) {
      // As slow in the second attempt as in the first: its plan knows.
      worker.Say(TimesOf(worker, step, is_slow ? 3 : 1));
      if (task.rank() == 0) worker.Say(StepOf(step, 3.0, first ? 50 : 30));
    }
    if (task.rank() != 0) return absl::OkStatus();
    const auto is_learnt = [](const std::string& line) {
      return absl::StrContains(line, "times as long as");
    };
    while (first && std::ranges::none_of(site.Log(task.job_id()), is_learnt)) std::this_thread::yield();
    worker.Say(CheckpointAt(from + 19, absl::StrCat("/nowhere/checkpoints/", from + 19)));
    worker.AwaitEnd();
    return worker.asked_to_finish() ? worker.FinishedAt(from + 20) : absl::OkStatus();
  };
}

v1::JobSpec JobOfOneStage(uint32_t sequences) {
  v1::JobSpec spec = SavingJob("follows");
  spec.mutable_batch()->set_sequences(sequences);
  spec.mutable_constraints()->set_max_stages(1);
  return spec;
}

TEST_CASE("a job whose device became slow gives it less at the next checkpoint, and then stays as it is") {
  OrchestratorSite site;
  site.Register(FakeNode("a", 1, 1, "steady"));
  site.Register(FakeNode("b", 1, 1, "slowing"));
  site.agents.SetProfile([](FakeWorker& worker) -> absl::Status {
    worker.Say(
        MadeUpProfile(worker.request().profile(), worker.agent_address() == "a:1" ? "steady" : "slowing"));
    return absl::OkStatus();
  });
  site.agents.SetTraining(Trains(site, "b/cpu0"));
  const std::string id = site.Submit(JobOfOneStage(16));
  const v1::Job before = site.AwaitJob(id, [](const v1::Job& j) { return j.last_step().step() > 0; });
  CHECK(SequencesOf(before.plan().plan(), "b/cpu0") == 8);
  const v1::Job after = site.AwaitJob(id, [](const v1::Job& j) {
    return j.attempt() == 2 && j.state() == v1::JOB_STATE_RUNNING && j.checkpoint_step() == 40;
  });
  CHECK(SequencesOf(after.plan().plan(), "b/cpu0") < 6);
  CHECK(after.restarts() == 0);
  CHECK(std::ranges::any_of(site.Log(id), [](const std::string& line) {
    return absl::StrContains(line, "planned anew: a step takes 50 s now") &&
           absl::StrContains(line, "over as many steps as were made so, 20");
  }));
  REQUIRE(site.Cancel(id).ok());
}

TEST_CASE(
    "a device that became slow among its kind gets less at the next checkpoint, and the others of it more") {
  OrchestratorSite site;
  for (const char* node : {"a", "b", "c", "d"}) site.Register(FakeNode(node));
  site.agents.SetTraining(Trains(site, "c/cpu0"));
  const std::string id = site.Submit(JobOfOneStage(32));
  const v1::Job before = site.AwaitJob(id, [](const v1::Job& j) { return j.last_step().step() > 0; });
  for (const char* device : {"a/cpu0", "c/cpu0"}) CHECK(SequencesOf(before.plan().plan(), device) == 8);
  const v1::Job after = site.AwaitJob(id, [](const v1::Job& j) {
    return j.attempt() == 2 && j.state() == v1::JOB_STATE_RUNNING && j.checkpoint_step() == 40;
  });
  CHECK(SequencesOf(after.plan().plan(), "c/cpu0") < 6);
  CHECK(SequencesOf(after.plan().plan(), "a/cpu0") > 8);
  CHECK(std::ranges::any_of(site.Log(id), [](const std::string& line) {
    return absl::StrContains(line, "c/cpu0 takes ") && absl::StrContains(line, "as long as the others of");
  }));
  REQUIRE(site.Cancel(id).ok());
}

}  // namespace
}  // namespace medley
