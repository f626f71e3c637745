#include "coordinator/orchestrator/prediction_record.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/store/store_under_test.h"

namespace medley {
namespace {

struct Desk {
  TemporaryDirectory directory;
  std::unique_ptr<Store> store = OpenStore(directory);
  JobJournal journal{*store};
  std::string id = store->InsertJob(SpecNamed("tiny"), "", 1)->id();

  // The job's next attempt has so many steps of `seconds` after its first two.
  void Train(size_t steps, double predicted_seconds, double seconds, bool emulated = false) {
    const absl::StatusOr<v1::Job> job = journal.Change(id, [&](v1::Job& j) {
      j.set_attempt(j.attempt() + 1);
      j.set_launch(j.launch() + 10);
      j.mutable_plan()->set_predicted_step_seconds(predicted_seconds);
      j.mutable_plan()->set_emulated(emulated);
      j.mutable_plan()->clear_devices();
      for (const auto& [kind, used] :
           {std::pair("slow", true), {"fast", true}, {"slow", true}, {"idle", false}}) {
        v1::DeviceShare& device = *j.mutable_plan()->add_devices();
        device.set_kind(kind);
        device.set_used(used);
      }
      j.clear_measured_step_seconds();
    });
    REQUIRE(job.ok());
    for (uint32_t number = 1; number <= steps + 2; ++number) {
      v1::StepMetrics step = Step(number, 1);
      step.set_attempt(job->attempt());
      step.set_step_seconds(number <= 2 ? 99 : seconds);
      journal.AddStep(id, step);
    }
    NotePredictionOutcome(*store, journal, id);
  }
};

TEST_CASE("what was predicted and measured of an attempt is kept once, and how far that is apart is told") {
  Desk desk;
  CHECK(PredictionErrors(*desk.store).empty());
  desk.Train(kFewestMeasuredSteps, 2.2, 2);
  NotePredictionOutcome(*desk.store, desk.journal, desk.id);
  desk.Train(kFewestMeasuredSteps, 1.5, 2);
  const std::vector<v1::PredictionOutcome> outcomes = *desk.store->ListPredictionOutcomes();
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].launch() == 10);
  CHECK(outcomes[0].job_id() == desk.id);
  CHECK(outcomes[0].predicted_step_seconds() == 2.2);
  CHECK(outcomes[0].measured_step_seconds() == 2);
  CHECK(outcomes[1].launch() == 20);
  const std::vector<v1::LiveError> errors = PredictionErrors(*desk.store);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].error() == Approx(0.1));
  CHECK(errors[1].error() == Approx(-0.25));
  for (const v1::LiveError& error : errors)
    CHECK(std::vector<std::string>(error.device_kinds().begin(), error.device_kinds().end()) ==
          std::vector<std::string>{"fast", "slow"});
}

TEST_CASE("few steps, emulated devices and what was not predicted tell nothing") {
  Desk desk;
  desk.Train(kFewestMeasuredSteps - 1, 2, 2);
  desk.Train(kFewestMeasuredSteps, 2, 2, /*emulated=*/true);
  desk.Train(kFewestMeasuredSteps, 0, 2);
  desk.Train(kFewestMeasuredSteps, 2, 0);
  NotePredictionOutcome(*desk.store, desk.journal, "nobody-1");
  CHECK(desk.store->ListPredictionOutcomes()->empty());
}

}  // namespace
}  // namespace medley
