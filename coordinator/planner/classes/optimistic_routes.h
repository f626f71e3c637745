#pragma once
#include <limits>
#include <vector>

#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/price_shapes.h"
#include "coordinator/planner/classes/route_shape.h"
#include "coordinator/planner/classes/sum_floor.h"

namespace medley {

// The argument of the lower bound. Let resources have prices by which all there are cost as many sequences as the batch has. If every route
// does by T fewer sequences than it costs, then all together do less than the batch by T: T is a lower bound. What
// a route of S stages does by T is bounded by 1F1B: the first micro-batch takes the way W, the passes and messages of
// all stages, until its backward ends on the first; and stage s with k - 1 stages behind it, each pass taking p and
// each forward f, has run at most k of its m forwards before its first backward. So
//     W + (m - 1) p - (k - 1) f <= T,    and    m p <= T.
// The first says that the route's period e, the longest p - (k - 1) f / (m - 1) of its stages, has W + (m - 1) e <= T.
//
// And no more than S micro-batches are under way: the forward of each on the first stage follows the backward of the S-th
// before it there, and its own way follows that; in between the first stage runs a pass for each. So with
// m - 1 = q S + r and q > 0
//     (q + 1) W + r p <= T,
// where p is the pass of the first stage. With more stages in the place of S it is so, too. For routes of few stages
// and micro-batches it says more than the other one, and its left side adds up over stages, too.
//
// Sums make it longer (PlanKind). Those of the first stage follow its last backward but for what that backward itself
// hides, so W has what they take longer. Where replicas share the optimizer's state parameters are gathered from the
// step's begin on, and the first forward of the first stage ends no sooner than all of its own have come: W has what that takes
// longer than the forward, too. Later stages may gather while the first micro-batch is on its way to them.

// What is worth its price does the batch, and not later than what is worth more.
constexpr double kSameWorth = 1 + 1e-8;

// How many ways of micro-batches follow each other, and passes of the first stage.
struct Trips {
  int ways = 1, first_passes = 0;
};
// Of m micro-batches on at most so many stages.
Trips TripsOf(int micro_batches, int most_stages);

// What plans of some kind have in common.
struct PlanTraits {
  RouteCount routes;
  bool shards_optimizer = false;
  // Of the devices of one class, which are slow to sum: no stage has more layers than `most_layers`, and some stage has `least_layers` at
  // least. Others that hold the same wait for that one's host (SumFloor::OfHosts), and the first stage of a route has at
  // least those of them that not all others have. -1: nothing is known.
  int slow_class = -1, least_layers = 0, most_layers = std::numeric_limits<int>::max();
};

// Plans of a kind, and what routes of such plans do by some time at most. Keeps references to the problem and `memories`.
class PlanKind {
 public:
  PlanKind(const PlanningProblem& problem, const std::vector<DeviceClass>& classes, StageMemories& memories,
           bool layers_on_hosts, int most_stages, const PlanTraits& traits);

  StageTable& table() { return table_; }
  const StageTable& table() const { return table_; }
  std::vector<ShapePricing>& pricings() { return pricings_; }
  int most_routes() const { return traits_.routes.most; }
  const std::vector<double>& sum_seconds() const { return sum_seconds_; }
  // Of what sums take, that parameters take to be gathered; 0: they are not.
  double gathered_over_summed() const { return gathered_over_summed_; }
  // What the argument calls W, so many of which follow each other, X and p, so many of which there are.
  double WayOf(const RouteShape& shape, Trips trips) const;
  // What a route does by some time at most.
  double MostMicroBatches(const RouteShape& shape, double seconds) const;

 private:
  double SumsOf(const StageForm& stage) const;
  // What such plans' sums of a stage take at least.
  double LeastSumsOf(const StageForm& stage, const SumFloor& floor, const SumFloor& of_slow) const;

  StageTable table_;
  const PlanTraits traits_;
  double gathered_over_summed_ = 0;
  std::vector<ShapePricing> pricings_;
  std::vector<double> sum_seconds_;  // half of it where the optimizer's state is shared; empty: nothing
};

}  // namespace medley
