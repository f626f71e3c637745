#pragma once
#include <limits>
#include <vector>

#include "runtime/ir/program/pass_graph.h"
#include "runtime/ir/program/pass_simulation.h"

// What orders of passes are worth: how long a step takes, what units keep. Pure.
namespace medley {

struct OrderTimes {
  bool complete = false;  // false: units wait for each other for ever, and no time is known
  // From the begin of a step to its last pass's end: what a step takes if all units begin it together.
  double makespan_seconds = std::numeric_limits<double>::infinity();
  // What a step takes where steps follow each other with nothing in between but each unit's own update, so
  // that units stand staggered (Qi et al. 2023, section 4): the longest time from a unit's first pass to its
  // last one's end, passes being as late as leaves all units' ends where they are.
  double period_seconds = std::numeric_limits<double>::infinity();
  // Of each unit, in the same time: when its first pass begins then, when its last one ends.
  std::vector<double> begin_seconds, end_seconds;
  std::vector<double> peak_kept;  // of each unit, the most (TimedStage)
};

// Keeps its buffers from one evaluation to the next, and a reference to `graph`. Not thread-safe.
class OrderEvaluator {
 public:
  explicit OrderEvaluator(const PassGraph& graph);

  // `orders` has every pass of the graph once.
  OrderTimes Evaluate(const PassOrders& orders);

  // The last evaluation, as soon and as late as can be; the latter's times are negative, from the ends.
  const PassSimulation& soonest() const { return soonest_; }
  const PassSimulation& latest() const { return latest_; }

 private:
  const PassGraph& graph_;
  PassSimulation soonest_, latest_;
};

// The same for orders of ops, which must be complete: each pass of the pipeline once, whole or in two.
OrderTimes EvaluateOrders(const TimedPipeline& pipeline, const std::vector<UnitOrder>& orders);

// Of each unit, how many of its first forwards begin before all units have ended the step before, at the latest that leaves
// units' ends where they are, where steps follow each other in `orders`.
std::vector<int> ForwardsBeforeNorms(const TimedPipeline& pipeline, const std::vector<UnitOrder>& orders);

// What each unit keeps at most.
std::vector<double> PeakKept(const PassGraph& graph, const PassOrders& orders);
// The same where what is kept until the last gradient, and what more between the two, is of buffers that are never used for each other, nor
// for another range of the unit: as step programs have it. No less.
std::vector<double> PeakInBuffers(const PassGraph& graph, const PassOrders& orders);

}  // namespace medley
