// Calls about jobs and their plans.
#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/rpc/services_under_test.h"

namespace medley {
namespace {

using Code = grpc::StatusCode;

TEST_CASE("a job is submitted, watched to its end, and listed with all that it did") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a", 2));
  const v1::Job submitted = site.Submit(FakeJob("tiny"));
  CHECK(submitted.spec().name() == "tiny");

  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(submitted.id()));
  v1::JobUpdate update;
  std::vector<uint32_t> steps;
  v1::Job last;
  while (updates->Read(&update)) {
    CHECK(update.job().id() == submitted.id());
    for (const v1::StepMetrics& step : update.steps()) steps.push_back(step.step());
    last = update.job();
  }
  CHECK(updates->Finish().ok());
  CHECK(last.state() == v1::JOB_STATE_DONE);
  CHECK(steps == std::vector<uint32_t>{1, 2, 3});
  CHECK(site.Get(submitted.id()).state() == v1::JOB_STATE_DONE);

  // From a step on.
  v1::WatchJobRequest watch = About<v1::WatchJobRequest>(submitted.id());
  watch.set_after_step(2);
  const auto later_context = Patient();
  const auto later = site.coordinator->WatchJob(later_context.get(), watch);
  REQUIRE(later->Read(&update));
  REQUIRE(update.steps_size() == 1);
  CHECK(update.steps(0).step() == 3);
  CHECK_FALSE(later->Read(&update));
  CHECK(later->Finish().ok());

  v1::ListStepsResponse listed;
  REQUIRE(site.Call(&Stub::ListSteps, About<v1::ListStepsRequest>(submitted.id()), listed).ok());
  CHECK(listed.steps_size() == 3);
  v1::ListStepsRequest some = About<v1::ListStepsRequest>(submitted.id());
  some.set_after_step(1);
  REQUIRE(site.Call(&Stub::ListSteps, some, listed).ok());
  REQUIRE(listed.steps_size() == 2);
  CHECK(listed.steps(0).step() == 2);
  some.set_after_step(0);
  some.set_limit(1);
  REQUIRE(site.Call(&Stub::ListSteps, some, listed).ok());
  REQUIRE(listed.steps_size() == 1);
  CHECK(listed.steps(0).step() == 3);  // the newest

  v1::ListLogsResponse logs;
  REQUIRE(site.Call(&Stub::ListLogs, About<v1::ListLogsRequest>(submitted.id()), logs).ok());
  REQUIRE(logs.lines_size() >= 5);
  CHECK(logs.lines(logs.lines_size() - 1).text() == "done");
  for (int i = 1; i < logs.lines_size(); ++i) CHECK(logs.lines(i).number() > logs.lines(i - 1).number());
  v1::ListLogsRequest few = About<v1::ListLogsRequest>(submitted.id());
  few.set_limit(2);
  v1::ListLogsResponse newest;
  REQUIRE(site.Call(&Stub::ListLogs, few, newest).ok());
  REQUIRE(newest.lines_size() == 2);
  CHECK(newest.lines(1).text() == "done");
  few.set_limit(0);
  few.set_after_line(logs.lines(1).number());
  REQUIRE(site.Call(&Stub::ListLogs, few, newest).ok());
  CHECK(newest.lines_size() == logs.lines_size() - 2);

  v1::PlanReport plan;
  REQUIRE(site.Call(&Stub::GetPlan, About<v1::GetPlanRequest>(submitted.id()), plan).ok());
  CHECK(plan.plan().units_size() > 0);
  CHECK(plan.compared());
  CHECK(plan.rejected_size() > 0);
  CHECK_FALSE(plan.has_predicted_step());
  // Asked for, it is told beside what is kept of the job, and is not kept itself.
  v1::GetPlanRequest with_step = About<v1::GetPlanRequest>(submitted.id());
  with_step.set_with_predicted_step(true);
  REQUIRE(site.Call(&Stub::GetPlan, with_step, plan).ok());
  CHECK(plan.compared());
  REQUIRE(plan.predicted_step().lanes_size() > 0);
  double last_seconds = 0;
  for (const v1::PredictedInstruction& instruction : plan.predicted_step().lanes(0).instructions())
    last_seconds = std::max(last_seconds, instruction.end_seconds());
  CHECK(last_seconds == Approx(plan.predicted_step_seconds()));
  v1::Job kept;
  REQUIRE(site.Call(&Stub::GetJob, About<v1::GetJobRequest>(submitted.id()), kept).ok());
  CHECK_FALSE(kept.plan().has_predicted_step());
  CheckRefused(site.Try(&Stub::GetTrace, About<v1::GetTraceRequest>(submitted.id())),
               Code::FAILED_PRECONDITION, {submitted.id(), "traced"});

  v1::ListJobsResponse jobs;
  const std::string second = site.Submit(FakeJob("second")).id();
  REQUIRE(site.Call(&Stub::ListJobs, v1::ListJobsRequest(), jobs).ok());
  REQUIRE(jobs.jobs_size() == 2);
  CHECK(jobs.jobs(0).id() == second);  // the newest first
  v1::ListJobsRequest one;
  one.set_limit(1);
  REQUIRE(site.Call(&Stub::ListJobs, one, jobs).ok());
  CHECK(jobs.jobs_size() == 1);
}

TEST_CASE("what a job's state forbids is FAILED_PRECONDITION, and what has happened already is repeated") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  // Queued: there is no device.
  const std::string id = site.Submit(FakeJob("job")).id();
  CheckRefused(site.Try(&Stub::GetPlan, About<v1::GetPlanRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "no plan"});
  CheckRefused(site.Try(&Stub::GetTrace, About<v1::GetTraceRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "traced"});
  CheckRefused(site.Try(&Stub::TraceSteps, OfSteps(3, id)), Code::FAILED_PRECONDITION, {id, "does not run"});
  for (const uint32_t steps : {0u, 1001u})
    CheckRefused(site.Try(&Stub::TraceSteps, OfSteps(steps, id)), Code::INVALID_ARGUMENT, {"steps", "1"});
  CheckRefused(site.Try(&Stub::ReplanJob, About<v1::ReplanJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  v1::CancelJobRequest gently = About<v1::CancelJobRequest>(id);
  gently.set_after_checkpoint(true);
  CheckRefused(site.Try(&Stub::CancelJob, gently), Code::FAILED_PRECONDITION, {id, "checkpoint.directory"});
  v1::Job job;
  REQUIRE(site.Call(&Stub::ResumeJob, About<v1::ResumeJobRequest>(id), job).ok());
  CHECK(job.state() == v1::JOB_STATE_QUEUED);

  v1::HoldJobRequest hold = About<v1::HoldJobRequest>(id);
  for (const bool held : {true, true, false, false, true}) {
    hold.set_hold(held);
    REQUIRE(site.Call(&Stub::HoldJob, hold, job).ok());
    CHECK(job.held() == held);
    CHECK(job.state() == v1::JOB_STATE_QUEUED);
  }

  // Running.
  site.agents.SetTraining(TrainForEver);
  site.Register(FakeNode("a"));
  CHECK(site.Get(id).state() == v1::JOB_STATE_QUEUED);  // it is held
  hold.set_hold(false);
  REQUIRE(site.Call(&Stub::HoldJob, hold, job).ok());
  site.Await(id, v1::JOB_STATE_RUNNING);
  hold.set_hold(true);
  CheckRefused(site.Try(&Stub::HoldJob, hold), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)), Code::FAILED_PRECONDITION, {id});
  CheckRefused(site.Try(&Stub::ReplanJob, About<v1::ReplanJobRequest>(id)), Code::FAILED_PRECONDITION,
               {id, "checkpoint.directory"});

  // Cancelled, twice; resumed; cancelled; deleted.
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  CHECK(job.state() == v1::JOB_STATE_CANCELLED);
  REQUIRE(site.Call(&Stub::ResumeJob, About<v1::ResumeJobRequest>(id), job).ok());
  CHECK(job.state() != v1::JOB_STATE_CANCELLED);
  site.Await(id, v1::JOB_STATE_RUNNING);
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);
  CHECK(site.Try(&Stub::DeleteJob, About<v1::DeleteJobRequest>(id)).ok());
  CheckRefused(site.Try(&Stub::GetJob, About<v1::GetJobRequest>(id)), Code::NOT_FOUND, {id});
}

TEST_CASE("a long job is listed and watched in parts, each step once and each validation with its step") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  const std::string id = site.Submit(FakeJob("long")).id();
  constexpr uint32_t kSteps = 20'000;
  std::vector<v1::StepMetrics> steps;
  std::vector<v1::ValidationMetrics> validations;
  for (uint32_t step = 1; step <= kSteps; ++step) {
    v1::StepMetrics& metrics = steps.emplace_back();
    metrics.set_step(step);
    metrics.set_loss(1.0 / step);
    metrics.set_at_seconds(step);
    metrics.set_tokens(1e15);
    metrics.set_step_seconds(0.1);
    metrics.set_gradient_norm(0.1);
    metrics.set_learning_rate(0.1);
    if (step % 1000 == 0) validations.emplace_back().set_step(step);
  }
  REQUIRE(site.store->AppendSteps(id, steps).ok());
  REQUIRE(site.store->AppendValidations(id, validations).ok());

  v1::ListStepsResponse listed;
  int parts = 0;
  REQUIRE(site.Call(&Stub::ListSteps, About<v1::ListStepsRequest>(id), listed, &parts).ok());
  CHECK(parts > 1);
  REQUIRE(listed.steps_size() == kSteps);
  bool in_order = true;
  for (uint32_t i = 0; i < kSteps; ++i) in_order = in_order && listed.steps(i).step() == i + 1;
  CHECK(in_order);
  CHECK(listed.validations_size() == 20);
  v1::ListStepsRequest since = About<v1::ListStepsRequest>(id);
  since.set_since_seconds(kSteps - 2000);
  REQUIRE(site.Call(&Stub::ListSteps, since, listed).ok());
  CHECK(listed.steps_size() == 2001);
  CHECK(listed.validations_size() == 3);

  v1::CancelJobRequest cancel = About<v1::CancelJobRequest>(id);
  v1::Job job;
  REQUIRE(site.Call(&Stub::CancelJob, cancel, job).ok());
  const auto context = Patient();
  const auto updates = site.coordinator->WatchJob(context.get(), About<v1::WatchJobRequest>(id));
  v1::JobUpdate update;
  uint32_t last = 0;
  int count = 0, validated = 0;
  while (updates->Read(&update)) {
    ++count;
    for (const v1::StepMetrics& step : update.steps()) {
      in_order = in_order && step.step() == last + 1;
      last = step.step();
    }
    for (const v1::ValidationMetrics& validation : update.validations())
      in_order = in_order && validation.step() <= last && validation.step() > last - update.steps_size();
    validated += update.validations_size();
  }
  CHECK(updates->Finish().ok());
  CHECK(in_order);
  CHECK(last == kSteps);
  CHECK(validated == 20);
  CHECK(count > 1);
}

TEST_CASE("a job that is done cannot be resumed") {
  Site site;
  site.Register(FakeNode("a"));
  const std::string id = site.Submit(FakeJob("job")).id();
  site.Await(id, v1::JOB_STATE_DONE);
  CheckRefused(site.Try(&v1::Coordinator::Stub::ResumeJob, About<v1::ResumeJobRequest>(id)),
               Code::FAILED_PRECONDITION, {id, "done"});
}

TEST_CASE("a plan is made without starting anything, and says what there is none for") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  v1::PlanJobRequest request;
  *request.mutable_spec() = FakeJob("planned");
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::FAILED_PRECONDITION, {"no agent is registered"});
  site.Register(FakeNode("a", 2));
  v1::PlanReport report;
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  CHECK(report.plan().units_size() > 0);
  CHECK(report.predicted_step_seconds() > 0);
  CHECK_FALSE(report.has_predicted_step());
  request.set_with_predicted_step(true);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  REQUIRE(report.predicted_step().lanes_size() > 0);
  CHECK(report.predicted_step().lanes(0).instructions_size() > 0);
  // Devices have the prices that their agents gave.
  CHECK(report.price_per_hour() == 0);
  v1::RegisterRequest priced = FakeNode("b", 1);
  priced.mutable_node()->mutable_devices(0)->set_price_per_hour(2);
  site.Register(priced);
  request.set_with_pareto(true);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  REQUIRE(report.pareto_size() > 0);
  CHECK(report.pareto(0).chosen());
  CHECK(report.pareto(report.pareto_size() - 1).price_per_hour() == 0);
  request.mutable_spec()->mutable_constraints()->set_most_price_per_hour(1);
  request.set_with_pareto(false);
  REQUIRE(site.Call(&Stub::PlanJob, request, report).ok());
  CHECK(report.price_per_hour() == 0);
  CHECK(report.pareto_size() == 0);
  request.mutable_spec()->mutable_constraints()->set_deadline_seconds(1e-9);
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::RESOURCE_EXHAUSTED,
               {"constraints.deadline_seconds: 1e-09"});
  request.mutable_spec()->clear_constraints();
  CHECK(site.agents.trainings().empty());
  v1::ListJobsResponse jobs;
  REQUIRE(site.Call(&Stub::ListJobs, v1::ListJobsRequest(), jobs).ok());
  CHECK(jobs.jobs_size() == 0);
  // A model that no device holds.
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_layers(48);
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_hidden(2048);
  request.mutable_spec()->mutable_model()->mutable_gpt2()->set_heads(16);
  CheckRefused(site.Try(&Stub::PlanJob, request), Code::RESOURCE_EXHAUSTED, {"no plan fits"});
}

}  // namespace
}  // namespace medley
