// Jobs with a deadline that go on after a loss.
#include <catch2/catch.hpp>

#include "coordinator/orchestrator/orchestrator_under_test.h"

namespace medley {
namespace {

// A job of 100 steps on two nodes, which is to take no longer than between what both need for it and what one of them does.
v1::JobSpec BetweenOneAndBoth(OrchestratorSite& site) {
  v1::PlanJobRequest request;
  *request.mutable_spec() = FakeJob("urgent");
  request.mutable_spec()->set_steps(100);
  request.mutable_spec()->mutable_checkpoint()->set_directory("/nowhere/checkpoints");
  const absl::StatusOr<v1::PlanReport> both = site.orchestrator->Plan(request);
  request.mutable_spec()->mutable_constraints()->set_most_devices(1);
  const absl::StatusOr<v1::PlanReport> one = site.orchestrator->Plan(request);
  REQUIRE(both.ok());
  REQUIRE(one.ok());
  REQUIRE(both->predicted_step_seconds() < 0.8 * one->predicted_step_seconds());
  v1::JobSpec spec = request.spec();
  spec.mutable_constraints()->clear_most_devices();
  spec.mutable_constraints()->set_deadline_seconds((both->job_seconds() + one->job_seconds()) / 2);
  return spec;
}

// The job in its second attempt, after it had come to `checkpoint` and node b has left.
std::string GoneOn(OrchestratorSite& site, const v1::JobSpec& spec, uint32_t checkpoint) {
  site.agents.SetTraining([checkpoint](FakeWorker& worker) -> absl::Status {
    worker.Say(CheckpointAt(checkpoint, "/nowhere/checkpoints/step"));
    worker.AwaitEnd();
    return absl::CancelledError("stopped");
  });
  const std::string id = site.Submit(spec);
  site.AwaitJob(id, [&](const v1::Job& job) {
    return job.checkpoint_step() == checkpoint && job.state() == v1::JOB_STATE_RUNNING;
  });
  site.agents.SetTraining(TrainThreeSteps);
  v1::DeregisterRequest leaves;
  leaves.set_node("b");
  leaves.set_incarnation(1);
  site.orchestrator->Deregister(leaves);
  return id;
}

bool IsSaid(OrchestratorSite& site, const std::string& id, const std::string& what) {
  const std::vector<std::string> log = site.Log(id);
  return std::any_of(log.begin(), log.end(),
                     [&](const std::string& line) { return absl::StrContains(line, what); });
}

TEST_CASE("a job goes on with fewer devices where they end the steps that it has left in time") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  const std::string id = GoneOn(site, BetweenOneAndBoth(site), /*checkpoint=*/95);
  CHECK(site.Await(id, v1::JOB_STATE_DONE).attempt() == 2);
  CHECK_FALSE(IsSaid(site, id, "constraints.deadline_seconds"));
}

TEST_CASE("a job that can keep its deadline no more goes on, and says how late it is") {
  OrchestratorSite site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  const v1::JobSpec spec = BetweenOneAndBoth(site);
  const std::string id = GoneOn(site, spec, /*checkpoint=*/1);
  CHECK(site.Await(id, v1::JOB_STATE_DONE).attempt() == 2);
  CHECK(IsSaid(site, id, " for 99 more steps; it goes on under that"));
  // Nothing was begun of this one.
  const std::string waits = site.Submit(spec);
  const v1::Job job = site.AwaitJob(waits, [](const v1::Job& one) {
    return absl::StrContains(one.state_reason(), "constraints.deadline_seconds");
  });
  CHECK(job.attempt() == 0);
  CHECK_THAT(job.state_reason(), Catch::Contains(" for 100 steps"));
}

}  // namespace
}  // namespace medley
