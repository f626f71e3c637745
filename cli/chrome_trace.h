#pragma once
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// A trace as chrome://tracing and Perfetto read it: a process for each device, in it a predicted and a
// measured lane for each stream that has instructions, the same names in both; times in microseconds from the
// start of the step. Instructions that were not measured (end 0) are in the predicted lane alone.
std::string ChromeTrace(const v1::Trace& trace);

// Likewise of several steps of a job, behind one another as they were; a lane of its own says where each begins. Times are from the start of
// the first one. Not thread-safe.
class ChromeTraceOfSteps {
 public:
  // A step, or some of its lanes: the parts of a step one after the other, steps in their order.
  void Add(const v1::Trace& trace);
  int steps() const { return steps_; }
  // All of it. `lost_steps`: that did not come.
  std::string Text(uint32_t lost_steps) const;

 private:
  // Of the step that was added last.
  std::string StepSlice() const;

  std::string job_id_, events_;  // all but the last step's slice, with a comma behind each
  double first_started_at_seconds_ = 0;
  double step_start_seconds_ = 0, step_seconds_ = 0;  // from the start of the first one; how long it took
  uint32_t first_step_ = 0, step_ = 0;
  int steps_ = 0, lanes_ = 0;  // lanes of the last step so far
};

}  // namespace medley
