#include "coordinator/orchestrator/job_journal.h"

#include <catch2/catch.hpp>
#include <thread>

#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

struct Desk {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  JobJournal journal{*store};
  std::string id = store->InsertJob(SpecNamed("tiny"), "", 1)->id();
};

v1::StepMetrics Timed(uint32_t step, double seconds) {
  v1::StepMetrics metrics = Step(step, 1.0);
  metrics.set_step_seconds(seconds);
  return metrics;
}

TEST_CASE("a job comes from the store on first use; one that is not there is not found") {
  Desk desk;
  CHECK(desk.journal.Get(desk.id)->spec().name() == "tiny");
  CHECK(absl::IsNotFound(desk.journal.Get("tiny-99").status()));
  CHECK(absl::IsNotFound(desk.journal.Change("tiny-99", [](v1::Job&) {}).status()));
  CHECK(absl::IsNotFound(desk.journal.Apply("tiny-99", JobEvent::kPlanned, "").status()));
  desk.journal.AddStep("tiny-99", Step(1, 1));  // of a job nobody knows: dropped
  desk.journal.Flush();
}

TEST_CASE("a change of state is on disk before it is seen") {
  Desk desk;
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kDevicesGranted, "on a/cpu0").ok());
  CHECK(desk.store->GetJob(desk.id)->state() == v1::JOB_STATE_PROFILING);
  CHECK(desk.store->GetJob(desk.id)->state_reason() == "on a/cpu0");
}

TEST_CASE("an event that the state does not allow changes nothing") {
  Desk desk;
  const absl::StatusOr<v1::Job> refused = desk.journal.Apply(desk.id, JobEvent::kPlanned, "");
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK(desk.journal.Get(desk.id)->state() == v1::JOB_STATE_QUEUED);
  CHECK(desk.store->GetJob(desk.id)->state() == v1::JOB_STATE_QUEUED);
}

TEST_CASE("metrics and lines reach the disk with the next flush, once each") {
  Desk desk;
  for (uint32_t step = 1; step <= 3; ++step) desk.journal.AddStep(desk.id, Step(step, 5.0 - step));
  v1::ValidationMetrics validation;
  validation.set_step(3);
  validation.set_loss(2.5);
  desk.journal.AddValidation(desk.id, validation);
  desk.journal.Log(desk.id, "a/cpu0", "hello");
  CHECK(desk.journal.Get(desk.id)->last_step().step() == 3);  // seen at once
  CHECK(desk.store->ListSteps(desk.id, 0)->empty());
  desk.journal.Flush();
  desk.journal.Flush();
  CHECK(desk.store->ListSteps(desk.id, 0)->size() == 3);
  CHECK(desk.store->ListValidations(desk.id, 0)->size() == 1);
  REQUIRE(desk.store->ListLogs(desk.id, 10)->size() == 1);
  CHECK(desk.store->ListLogs(desk.id, 10)->front().source() == "a/cpu0");
  CHECK(desk.store->GetJob(desk.id)->last_validation().loss() == 2.5);
}

TEST_CASE("the end of a job is on disk with all that it reported") {
  Desk desk;
  desk.journal.AddStep(desk.id, Step(1, 4));
  const absl::StatusOr<v1::Job> ended = desk.journal.Apply(desk.id, JobEvent::kCancelled, "by the user");
  REQUIRE(ended.ok());
  CHECK(ended->ended_at_seconds() > 0);
  CHECK(desk.store->ListSteps(desk.id, 0)->size() == 1);
  CHECK_FALSE(desk.store->ListLogs(desk.id, 10)->empty());
}

TEST_CASE("the measured step time is the median of the attempt's steps without the first two") {
  Desk desk;
  desk.journal.AddStep(desk.id, Timed(1, 90));
  desk.journal.AddStep(desk.id, Timed(2, 80));
  CHECK(desk.journal.Get(desk.id)->measured_step_seconds() == 0);
  desk.journal.AddStep(desk.id, Timed(3, 3));
  desk.journal.AddStep(desk.id, Timed(4, 70));
  desk.journal.AddStep(desk.id, Timed(5, 2));
  CHECK(desk.journal.Get(desk.id)->measured_step_seconds() == 3);
  REQUIRE(desk.journal.Change(desk.id, [](v1::Job& job) { job.set_attempt(2); }).ok());
  for (uint32_t step = 3; step <= 5; ++step) desk.journal.AddStep(desk.id, Timed(step, 7));
  CHECK(desk.journal.Get(desk.id)->measured_step_seconds() == 7);
}

TEST_CASE("who waits for a change is woken by it, and not before its deadline otherwise") {
  Desk desk;
  const uint64_t now = desk.journal.AwaitChange(desk.id, 0, absl::InfiniteFuture());
  CHECK(now > 0);
  CHECK(desk.journal.AwaitChange(desk.id, now, Now()) == now);
  std::thread changer([&] { (void)desk.journal.Apply(desk.id, JobEvent::kDevicesGranted, ""); });
  CHECK(desk.journal.AwaitChange(desk.id, now, absl::InfiniteFuture()) > now);
  CHECK(desk.journal.Get(desk.id)->state() == v1::JOB_STATE_PROFILING);
  changer.join();
}

}  // namespace
}  // namespace medley
