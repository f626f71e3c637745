#pragma once
#include <vector>

#include "runtime/plan/plan.h"

namespace medley {

struct StageOp {
  enum class Kind { kForward, kBackward };
  Kind kind;
  int micro_batch;  // of the route, from 0
  friend bool operator==(const StageOp&, const StageOp&) = default;
};

// The order in which stage `stage` of `stages` runs one step of `micro_batches`. The order is data, so that it
// is tested without devices, threads or time. Backwards always run in the order of the micro-batches.
//   1F1B   warms up with forwards, alternates, drains: at most stages - stage micro-batches are alive at once.
//   GPipe  all forwards, then all backwards: all micro-batches are alive at once.
std::vector<StageOp> OrderOf(Schedule schedule, int stage, int stages, int micro_batches);

}  // namespace medley
