#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/program/timed_pipeline.h"

namespace medley {

// What an order of passes is good for.
enum class OrderGoal : uint8_t {
  kPeriod,    // OrderTimes::period_seconds
  kMakespan,  // OrderTimes::makespan_seconds
};

// Seconds below which no orders come whose units keep at most `memory_limit` (of each unit, as TimedStage
// counts). Where a unit is passed more than once, the work of the unit that computes longest, and of a
// makespan what lies before each unit's first pass with its work, and one micro-batch's way there and back; else also
//   what a unit waits for its first gradient, all forwards that it can keep being done before,
//   and for the gradient of its last forward, in which it has what it can keep to work off;
//   what lies before the first and behind the last pass of a stage on the units before it: such a unit's step
//   begins before and ends later, and only as many weights' gradients as can be kept may stand behind.
double LeastSeconds(const TimedPipeline& pipeline, const std::vector<double>& memory_limit, OrderGoal goal);

}  // namespace medley
