#pragma once
#include <cstdint>
#include <string>

namespace medley {

// What a running job would gain by another plan.
struct ReplanQuestion {
  double measured_step_seconds = 0;        // of the plan that runs; 0: not known yet
  double predicted_step_seconds = 0;       // of the plan that runs
  double predicted_then_step_seconds = 0;  // of the other one
  int64_t remaining_steps = 0;
  double pause_seconds = 0;  // from the last step under the one until the first under the other
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
