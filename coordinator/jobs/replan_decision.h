#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace medley {

// What a running job would gain by another plan.
struct ReplanQuestion {
  double measured_step_seconds = 0;        // of the plan that runs; 0: not known yet
  double predicted_step_seconds = 0;       // of the plan that runs, with all that is known now
  double predicted_then_step_seconds = 0;  // of the other one, likewise
  int64_t remaining_steps = 0;
  double pause_seconds = 0;  // from the last step under the one until the first under the other
  // Since when nothing but speeds has changed: they may change again, so they are supposed to last for no longer than the plan that runs has
  // been in use, and less than predictions err is no reason. Then moving back and forth costs at most as much as it has gained.
  // Unset: something else is the reason, and lasts.
  std::optional<int64_t> steps_so_far;
};

struct ReplanDecision {
  bool worth_it = false;
  double now_step_seconds = 0;   // measured, or else predicted
  double then_step_seconds = 0;  // predicted, and off by as much as the prediction of the plan that runs is
  std::string text;              // both figures, for people
};

// Whether the rest of the job, and the pause, take clearly less time under the other plan: by more than the
// pause once more, since predictions err. Pure.
ReplanDecision DecideReplan(const ReplanQuestion& question);

}  // namespace medley
