#include "coordinator/jobs/replan_decision.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "runtime/base/counted.h"

namespace medley {
namespace {

// Three digits, in the unit that is read best: "7.58 ms", "2 s".
std::string StepText(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", seconds * 1e3) : absl::StrFormat("%.3g s", seconds);
}

}  // namespace

ReplanDecision DecideReplan(const ReplanQuestion& question) {
  const double predicted = question.predicted_step_seconds;
  ReplanDecision decision;
  decision.now_step_seconds = question.measured_step_seconds > 0 ? question.measured_step_seconds : predicted;
  const double error = predicted > 0 ? decision.now_step_seconds / predicted : 1;
  decision.then_step_seconds = question.predicted_then_step_seconds * error;
  const double steps = static_cast<double>(std::max<int64_t>(question.remaining_steps, 0));
  const double gain_seconds = steps * (decision.now_step_seconds - decision.then_step_seconds);
  decision.worth_it = gain_seconds > 2 * question.pause_seconds;
  decision.text = absl::StrFormat(
      "a step takes %s now and would take %s: %.0f s %s over the remaining %s, for a pause of %.0f s",
      StepText(decision.now_step_seconds), StepText(decision.then_step_seconds), std::abs(gain_seconds),
      gain_seconds < 0 ? "more" : "less", Counted(std::max<int64_t>(question.remaining_steps, 0), "step"),
      question.pause_seconds);
  return decision;
}

}  // namespace medley
