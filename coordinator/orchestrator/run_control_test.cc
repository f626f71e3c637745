#include "coordinator/orchestrator/run_control.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

struct Control final : RunControl {
  using RunControl::OutcomeOf;
};

TEST_CASE("a run that ended by itself has ended so, whatever is lost before it is settled") {
  Control control;
  control.FinishEarly(JobEvent::kCancelled, "stopped by the user");
  control.Abort(JobEvent::kLost, "node a is lost");
  CHECK(control.OutcomeOf({.prepared = true}).event == JobEvent::kFinished);
  const RunOutcome stopped = control.OutcomeOf({.prepared = true, .stopped = true});
  CHECK(stopped.event == JobEvent::kCancelled);
  CHECK(stopped.cause == "stopped by the user");
}

TEST_CASE("a run that failed is what ended it first, but for a user who cancelled it") {
  Control control;
  const AttemptEnd failed = {.status = absl::InvalidArgumentError("a/cpu0: no"), .prepared = true};
  CHECK(control.OutcomeOf(failed).event == JobEvent::kRefused);
  control.Abort(JobEvent::kLost, "node a is lost");
  control.Abort(JobEvent::kInterrupted, "node b leaves");
  CHECK(control.OutcomeOf(failed).cause == "node a is lost");
  control.Abort(JobEvent::kCancelled, "cancelled by the user");
  CHECK(control.OutcomeOf(failed).event == JobEvent::kCancelled);
}

}  // namespace
}  // namespace medley
