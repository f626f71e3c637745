#include "coordinator/jobs/replan_decision.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/counted.h"

namespace medley {
namespace {

// Predictions of two plans by the same profiles err by about as much, unlike for each.
constexpr double kLeastGainOfSpeeds = 0.03;

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
  const int64_t remaining = std::max<int64_t>(question.remaining_steps, 0);
  const int64_t counted = std::min(remaining, question.steps_so_far.value_or(remaining));
  const double gain_seconds =
      static_cast<double>(counted) * (decision.now_step_seconds - decision.then_step_seconds);
  const double least_share = question.steps_so_far ? kLeastGainOfSpeeds : 0;
  decision.worth_it = gain_seconds > 2 * question.pause_seconds &&
                      decision.then_step_seconds <= decision.now_step_seconds * (1 - least_share);
  decision.text =
      absl::StrFormat("a step takes %s now and would take %s: %.0f s %s over %s, for a pause of %.0f s",
                      StepText(decision.now_step_seconds), StepText(decision.then_step_seconds),
                      std::abs(gain_seconds), gain_seconds < 0 ? "more" : "less",
                      counted < remaining ? absl::StrCat("as many steps as were made so, ", counted)
                                          : absl::StrCat("the remaining ", Counted(remaining, "step")),
                      question.pause_seconds);
  return decision;
}

}  // namespace medley
