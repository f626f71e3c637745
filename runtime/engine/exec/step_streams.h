#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/ir/program/program.h"

namespace medley {

// Measured times of one instruction, from the start of the step.
struct MeasuredTime {
  double start_seconds = 0;
  double end_seconds = 0;
};

struct StepRun {
  absl::Status status;  // the first failure; the instructions after it did not run
  absl::Time started_at;
  std::vector<MeasuredTime> times;  // parallel to the program's instructions
};

// Runs the instructions of `program` once, each stream on a thread of its own (compute on the caller's), each
// instruction after those it waits for. `run` does the instruction of an index and may block; it is called
// from several threads. It is told the instruction's time, whose start it may put off to when there was
// nothing but a peer to wait for. After the first failure nothing more is started and `on_failure` is called
// once, so that what blocks can be woken.
StepRun RunStreams(const StepProgram& program, absl::Time started_at,
                   const std::function<absl::Status(int index, MeasuredTime& time)>& run,
                   const std::function<void(const absl::Status&)>& on_failure);

}  // namespace medley
