#include "coordinator/orchestrator/job_journal.h"

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "coordinator/store/store_under_test.h"
#include "runtime/base/clock.h"
#include "runtime/base/files/scarce_disk.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

class SetClock final : public Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::FromUnixSeconds(1'000'000);
};

struct Desk {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  SetClock clock;
  JobJournal journal{*store, clock};
  std::string id = store->InsertJob(SpecNamed("tiny"), "", 1)->id();
};

std::vector<v1::Job> ListedBy(JobJournal& journal, int limit) {
  std::vector<v1::Job> jobs;
  const absl::Status listed = journal.List(limit, [&](const v1::Job& job) {
    jobs.push_back(job);
    return true;
  });
  INFO(listed.ToString());
  REQUIRE(listed.ok());
  return jobs;
}

v1::StepMetrics Timed(uint32_t step, double seconds) {
  v1::StepMetrics metrics = Step(step, 1.0);
  metrics.set_step_seconds(seconds);
  return metrics;
}

TEST_CASE("a job comes from the store on first use; one that is not there is not found") {
  Desk desk;
  CHECK(desk.journal.Get(desk.id)->spec().name() == "tiny");
  std::string looked_at;
  REQUIRE(desk.journal.Look(desk.id, [&](const v1::Job& job) { looked_at = job.spec().name(); }).ok());
  CHECK(looked_at == "tiny");
  CHECK(absl::IsNotFound(desk.journal.Look("tiny-99", [](const v1::Job&) { FAIL("there is none"); })));
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

TEST_CASE("what a job's time went to adds up to all of it") {
  Desk desk;
  for (const JobEvent event :
       {JobEvent::kDevicesGranted, JobEvent::kProfiled, JobEvent::kPlanned, JobEvent::kLaunched,
        JobEvent::kLost, JobEvent::kDevicesGranted, JobEvent::kCancelled}) {
    const absl::Status applied = desk.journal.Apply(desk.id, event, "").status();
    INFO(static_cast<int>(event) << " " << applied);
    REQUIRE(applied.ok());
  }
  const v1::Job job = *desk.journal.Get(desk.id);
  double sum = 0;
  std::set<int> states;
  for (const v1::StateTime& past : job.past()) {
    CHECK(past.seconds() >= 0);
    CHECK(states.insert(past.state()).second);
    sum += past.seconds();
  }
  CHECK(sum == Approx(job.state_since_seconds() - job.submitted_at_seconds()));
  CHECK(states.count(v1::JOB_STATE_QUEUED) == 1);
  CHECK(states.count(v1::JOB_STATE_RUNNING) == 1);
  CHECK(states.count(job.state()) == 0);
}

TEST_CASE("what a running job was at is counted once, and no count ever falls") {
  Desk desk;
  for (const JobEvent event :
       {JobEvent::kDevicesGranted, JobEvent::kProfiled, JobEvent::kPlanned, JobEvent::kLaunched})
    REQUIRE(desk.journal.Apply(desk.id, event, "").ok());
  const double began = UnixSecondsNow() - 1000;  // it runs for so long already
  REQUIRE(desk.journal
              .Change(desk.id,
                      [&](v1::Job& job) {
                        job.set_state_since_seconds(began);
                        job.set_accounted_until_seconds(began);
                      })
              .ok());
  double at = began;
  v1::Job before = *desk.journal.Get(desk.id);
  const auto look = [&] {
    const v1::Job job = *desk.journal.Get(desk.id);
    CHECK(job.step_seconds_total() >= before.step_seconds_total());
    CHECK(job.repeated_step_seconds() >= before.repeated_step_seconds());
    CHECK(job.step_seconds_total() - job.repeated_step_seconds() >=
          before.step_seconds_total() - before.repeated_step_seconds());
    CHECK(job.validation_seconds_total() >= before.validation_seconds_total());
    CHECK(job.tokens_total() >= before.tokens_total());
    CHECK(job.accounted_until_seconds() == at);
    before = job;
  };
  const auto step = [&](uint32_t number, uint32_t attempt) {
    v1::StepMetrics metrics = Timed(number, 2);
    metrics.set_attempt(attempt);
    metrics.set_tokens(10);
    metrics.set_at_seconds(at += 3);  // a second of each three is between steps
    desk.journal.AddStep(desk.id, metrics);
    look();
  };
  for (const uint32_t number : {1, 2, 3}) step(number, 1);
  desk.journal.Flush();
  for (const uint32_t number : {4, 5}) step(number, 1);
  REQUIRE(desk.journal.Change(desk.id, [](v1::Job& job) { job.set_attempt(2); }).ok());
  for (const uint32_t number : {3, 4, 5, 6}) step(number, 2);
  v1::ValidationMetrics validation;
  validation.set_step(6);
  validation.set_seconds(4);
  validation.set_at_seconds(at += 4);
  desk.journal.AddValidation(desk.id, validation);
  look();
  const v1::Job job = *desk.journal.Get(desk.id);
  CHECK(job.step_seconds_total() == Approx(18));
  CHECK(job.repeated_step_seconds() == Approx(6));
  CHECK(job.validation_seconds_total() == Approx(4));
  CHECK(job.tokens_total() == 60);
  CHECK(job.highest_step() == 6);
  // The next coordinator goes on counting from there.
  desk.journal.Flush();
  JobJournal next(*desk.store, desk.clock);
  CHECK(next.Get(desk.id)->SerializeAsString() == job.SerializeAsString());
  v1::StepMetrics again = Timed(6, 2);
  again.set_attempt(2);
  again.set_tokens(10);
  next.AddStep(desk.id, again);
  CHECK(next.Get(desk.id)->tokens_total() == 60);
}

TEST_CASE("those that have not ended are known with their states") {
  Desk desk;
  const std::string other = desk.store->InsertJob(SpecNamed("other"), "", 1)->id();
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kDevicesGranted, "").ok());
  REQUIRE(desk.journal.Apply(other, JobEvent::kCancelled, "").ok());
  const std::vector<JobJournal::Standing> unfinished = desk.journal.Unfinished();
  REQUIRE(unfinished.size() == 1);
  CHECK(unfinished[0].id == desk.id);
  CHECK(unfinished[0].state == v1::JOB_STATE_PROFILING);
  CHECK(unfinished[0].since_seconds == desk.journal.Get(desk.id)->state_since_seconds());
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
  CHECK(desk.journal.MeasuredSteps(desk.id) == 0);
  desk.journal.AddStep(desk.id, Timed(3, 3));
  desk.journal.AddStep(desk.id, Timed(4, 70));
  desk.journal.AddStep(desk.id, Timed(5, 2));
  CHECK(desk.journal.Get(desk.id)->measured_step_seconds() == 3);
  CHECK(desk.journal.MeasuredSteps(desk.id) == 3);
  REQUIRE(desk.journal.Change(desk.id, [](v1::Job& job) { job.set_attempt(2); }).ok());
  for (uint32_t step = 3; step <= 5; ++step) {
    v1::StepMetrics metrics = Timed(step, 7);
    metrics.set_attempt(2);
    desk.journal.AddStep(desk.id, metrics);
  }
  CHECK(desk.journal.Get(desk.id)->measured_step_seconds() == 7);
  CHECK(desk.journal.MeasuredSteps(desk.id) == 1);
}

TEST_CASE(
    "the first step of an attempt drops what the one before had made after it; a step that comes twice is "
    "one") {
  Desk desk;
  const auto of_attempt = [](uint32_t step, uint32_t attempt) {
    v1::StepMetrics metrics = Step(step, 10.0 * attempt + step);
    metrics.set_attempt(attempt);
    return metrics;
  };
  const auto steps = [&] {
    desk.journal.Flush();
    std::vector<std::pair<uint32_t, uint32_t>> found;
    const auto listed = desk.store->ListSteps(desk.id, 0);
    for (const v1::StepMetrics& step : *listed) found.emplace_back(step.step(), step.attempt());
    return found;
  };
  for (uint32_t step = 1; step <= 5; ++step) desk.journal.AddStep(desk.id, of_attempt(step, 1));
  v1::ValidationMetrics validation;
  validation.set_step(5);
  desk.journal.AddValidation(desk.id, validation);
  REQUIRE(steps().size() == 5);
  REQUIRE(desk.journal.Change(desk.id, [](v1::Job& job) { job.set_attempt(2); }).ok());
  CHECK(steps().size() == 5);  // nothing is made anew yet
  desk.journal.AddStep(desk.id, of_attempt(3, 2));
  CHECK(steps() == std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {2, 1}, {3, 2}});
  CHECK(desk.store->ListValidations(desk.id, 0)->empty());
  CHECK(desk.journal.AwaitChange(desk.id, 0, Now()).first_step == 3);
  desk.journal.AddStep(desk.id, of_attempt(4, 2));
  desk.journal.AddStep(desk.id, of_attempt(3, 2));  // again
  CHECK(desk.journal.Get(desk.id)->last_step().step() == 4);
  CHECK(steps().size() == 4);

  JobJournal after_a_restart(*desk.store);  // of the coordinator, while the attempt goes on
  after_a_restart.AddStep(desk.id, of_attempt(4, 2));
  after_a_restart.AddStep(desk.id, of_attempt(5, 2));
  after_a_restart.Flush();
  CHECK(steps() == std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 2}});
}

TEST_CASE("what comes before the first step of an attempt is kept, also while it is not on disk") {
  Desk desk;
  const auto of_attempt = [](uint32_t step, uint32_t attempt) {
    v1::StepMetrics metrics = Step(step, 1.0);
    metrics.set_attempt(attempt);
    return metrics;
  };
  desk.journal.AddMissedSteps(desk.id, {of_attempt(1, 1), of_attempt(2, 1), of_attempt(3, 1)});
  CHECK(desk.journal.Get(desk.id)->last_step().step() == 3);
  v1::ValidationMetrics validation;
  validation.set_step(2);
  desk.journal.AddValidation(desk.id, validation);
  desk.journal.AddStep(desk.id, of_attempt(3, 2));
  desk.journal.Flush();
  std::vector<std::pair<uint32_t, uint32_t>> found;
  const auto listed = desk.store->ListSteps(desk.id, 0);
  for (const v1::StepMetrics& step : *listed) found.emplace_back(step.step(), step.attempt());
  CHECK(found == std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {2, 1}, {3, 2}});
  CHECK(desk.store->ListValidations(desk.id, 0)->size() == 1);
}

TEST_CASE("texts in another encoding are kept as text, and the job stays readable") {
  Desk desk;
  desk.journal.Log(desk.id, "a/cpu0", "caf\xe9 \xff");
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kRefused, "what() said \xff").ok());
  desk.journal.Flush();
  CHECK(desk.store->GetJob(desk.id)->state() == v1::JOB_STATE_FAILED);
  CHECK(desk.store->GetJob(desk.id)->state_reason() == "what() said \xef\xbf\xbd");
  CHECK(desk.store->ListLogs(desk.id, 10)->front().text() == "caf\xef\xbf\xbd \xef\xbf\xbd");
}

TEST_CASE("a job that is known stays as it is when its submission is told late") {
  Desk desk;
  const v1::Job as_submitted = *desk.store->GetJob(desk.id);
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kCancelled, "by the user").ok());
  desk.journal.Add(as_submitted);
  CHECK(desk.journal.Get(desk.id)->state() == v1::JOB_STATE_CANCELLED);
}

TEST_CASE("what a job waits for is seen with its reason and kept nowhere") {
  Desk desk;
  desk.journal.SetWait(desk.id, "waits for b/cpu0");
  CHECK(desk.journal.Get(desk.id)->state_reason() == "waits for b/cpu0");
  CHECK(ListedBy(desk.journal, 10).front().state_reason() == "waits for b/cpu0");
  desk.journal.Flush();
  CHECK(desk.store->GetJob(desk.id)->state_reason().empty());
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kDevicesGranted, "on b/cpu0").ok());
  CHECK(desk.journal.Get(desk.id)->state_reason() == "on b/cpu0");
}

TEST_CASE("a list has of each job what lists show, and goes job by job while others go on") {
  Desk desk;
  v1::Job whole = *desk.store->InsertJob(SpecNamed("past"), "", 2);
  whole.mutable_spec()->mutable_plan()->add_units()->add_devices("a/cpu0");
  whole.add_tasks()->set_task_id("t");
  whole.mutable_last_step()->set_step(7);
  v1::Unit& unit = *whole.mutable_plan()->mutable_plan()->add_units();
  unit.add_devices("a/cpu0");
  unit.set_order("F0-3");
  whole.mutable_plan()->set_explanation("long");
  whole.mutable_plan()->add_devices()->set_device("a/cpu0");
  whole.mutable_plan()->set_predicted_step_seconds(0.5);
  REQUIRE(desk.store->UpdateJob(whole).ok());
  const bool in_memory = GENERATE(false, true);
  if (in_memory) REQUIRE(desk.journal.Get(whole.id()).ok());
  const int kept = desk.journal.Kept();

  const std::vector<v1::Job> jobs = ListedBy(desk.journal, 10);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[1].id() == desk.id);
  v1::Job expected = whole;
  expected.clear_tasks();
  expected.mutable_spec()->clear_plan();
  expected.clear_plan();
  expected.mutable_plan()->mutable_plan()->add_units()->add_devices("a/cpu0");
  expected.mutable_plan()->set_predicted_step_seconds(0.5);
  CHECK(jobs[0].DebugString() == expected.DebugString());
  CHECK(desk.journal.Kept() == kept);
  CHECK(desk.journal.Get(whole.id())->plan().explanation() == "long");
  CHECK(ListedBy(desk.journal, 1).size() == 1);

  // The journal is called while a job is taken; what is deleted meanwhile is left out.
  std::vector<std::string> taken;
  REQUIRE(desk.journal
              .List(10,
                    [&](const v1::Job& job) {
                      taken.push_back(job.id());
                      (void)desk.journal.Apply(desk.id, JobEvent::kCancelled, "by the user");
                      return desk.journal.Delete(desk.id).ok();
                    })
              .ok());
  CHECK(taken == std::vector<std::string>{whole.id()});
}

TEST_CASE("only a job that has ended can be deleted, and then it is gone with all that it reported") {
  Desk desk;
  CHECK(absl::IsFailedPrecondition(desk.journal.Delete(desk.id)));
  desk.journal.AddStep(desk.id, Step(1, 4));
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kCancelled, "by the user").ok());
  REQUIRE(desk.journal.Delete(desk.id).ok());
  CHECK(absl::IsNotFound(desk.journal.Get(desk.id).status()));
  CHECK(absl::IsNotFound(desk.journal.Delete(desk.id)));
  CHECK(absl::IsNotFound(desk.store->ListSteps(desk.id, 0).status()));
}

TEST_CASE(
    "a job that has ended is forgotten when nobody has asked for it for a while, and can still be read") {
  Desk desk;
  const std::string ended = desk.store->InsertJob(SpecNamed("ended"), "", 1)->id();
  desk.journal.Log(desk.id, "coordinator", "waits");
  REQUIRE(desk.journal.Apply(ended, JobEvent::kCancelled, "enough").ok());
  desk.journal.Flush();
  CHECK(desk.journal.Kept() == 2);
  desk.clock.now += JobJournal::kKeepEnded;
  desk.journal.Flush();
  CHECK(desk.journal.Kept() == 2);
  desk.clock.now += absl::Seconds(1);
  desk.journal.Flush();
  CHECK(desk.journal.Kept() == 1);
  CHECK(desk.journal.Get(ended)->state() == v1::JOB_STATE_CANCELLED);
  desk.clock.now += 2 * JobJournal::kKeepEnded;
  desk.journal.Flush();
  CHECK(desk.journal.Kept() == 1);  // the one that waits
}

TEST_CASE("what is said of a job that the store does not have any more is not kept for ever") {
  Desk desk;
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kCancelled, "enough").ok());
  REQUIRE(desk.store->DeleteJob(desk.id).ok());
  desk.journal.Log(desk.id, "coordinator", "late");
  desk.journal.Flush();
  desk.clock.now += 2 * JobJournal::kKeepEnded;
  desk.journal.Flush();
  CHECK(desk.journal.Kept() == 0);
}

TEST_CASE("who waits for a change is woken by it, and not before its deadline otherwise") {
  Desk desk;
  const uint64_t now = desk.journal.AwaitChange(desk.id, 0, absl::InfiniteFuture()).version;
  CHECK(now > 0);
  CHECK(desk.journal.AwaitChange(desk.id, now, Now()).version == now);
  std::thread changer([&] { (void)desk.journal.Apply(desk.id, JobEvent::kDevicesGranted, ""); });
  CHECK(desk.journal.AwaitChange(desk.id, now, absl::InfiniteFuture()).version > now);
  CHECK(desk.journal.Get(desk.id)->state() == v1::JOB_STATE_PROFILING);
  changer.join();
}

TEST_CASE("who asks whether a change is kept is told why it is not, until it is") {
  Desk desk;
  {
    const FileSizeLimit full(1);
    const absl::StatusOr<v1::Job> cancelled =
        desk.journal.Apply(desk.id, JobEvent::kCancelled, "by the user");
    REQUIRE(cancelled.ok());
    CHECK(cancelled->state() == v1::JOB_STATE_CANCELLED);
    const absl::Status kept = desk.journal.CheckKept(desk.id);
    CHECK(absl::IsUnavailable(kept));
    CHECK_THAT(std::string(kept.message()), Catch::Contains("medley.db") && Catch::Contains(desk.id));
    desk.journal.Flush();
    CHECK_FALSE(desk.journal.CheckKept(desk.id).ok());
  }
  desk.journal.Flush();
  CHECK(desk.journal.CheckKept(desk.id).ok());
  CHECK(desk.store->GetJob(desk.id)->state() == v1::JOB_STATE_CANCELLED);
}

TEST_CASE("who waits for a change of a job that is deleted is told that it is not there") {
  Desk desk;
  REQUIRE(desk.journal.Apply(desk.id, JobEvent::kCancelled, "enough").ok());
  const uint64_t now = desk.journal.AwaitChange(desk.id, 0, absl::InfiniteFuture()).version;
  absl::Status deleted;
  std::thread deleter([&] { deleted = desk.journal.Delete(desk.id); });
  CHECK(desk.journal.AwaitChange(desk.id, now, absl::InfiniteFuture()).version == 0);
  deleter.join();
  CHECK(deleted.ok());
  CHECK(desk.journal.AwaitChange(desk.id, now, absl::InfiniteFuture()).version == 0);
  CHECK(absl::IsNotFound(desk.journal.Get(desk.id).status()));
  CHECK(desk.journal.Kept() == 0);
}

}  // namespace
}  // namespace medley
