#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/program/evaluate_orders.h"
#include "runtime/ir/program/order_bound.h"

namespace medley {

struct SynthesisOptions {
  // Of each unit, what it may keep at once, as TimedStage counts.
  std::vector<double> memory_limit;
  bool in_buffers = false;  // which the limit is of, and peaks (PeakInBuffers)
  OrderGoal goal = OrderGoal::kPeriod;
  // Passes to simulate, about. The schedules that have names are looked at whatever it is.
  int64_t work_limit = 2'000'000;
  uint64_t seed = 1;
};

struct SynthesisedOrders {
  std::vector<UnitOrder> orders;  // of each unit; empty: none was found that keeps to the limit
  OrderTimes times;
  double least_seconds = 0;  // LeastSeconds of the goal: no orders are better
  int64_t simulated_passes = 0;
};

// Orders for exactly these times, within the memory of each unit: complete, free of deadlock, and never
// worse in the goal than the best schedule with a name that keeps to the limit. Of orders that are equal in
// the goal, those that are better in the other one. Pure; equal arguments give equal orders.
//
// Starts from all schedules and from list schedules by several rules, and justifies each: what a step's
// latest times say is urgent becomes the rule of the next list schedule, onwards and backwards in turn, each
// within the memory (forward-backward improvement of resource-constrained projects: Li & Willis 1992, Valls,
// Ballestin & Quintanilla 2005). Then again and again from the best, with times that are blurred a little.
SynthesisedOrders SynthesiseOrders(const TimedPipeline& pipeline, const SynthesisOptions& options);

}  // namespace medley
