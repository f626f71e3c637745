#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/sum_model.h"

namespace medley {

// What a unit of a stage does of a micro-batch where the two gradients of a backward are apart, and for how much of that it has room.
struct OrderedStage {
  double forward_seconds = 0, input_gradient_seconds = 0, weight_gradient_seconds = 0;
  StageKeeping keeping;
  // As RouteClock has them: before which its first forward does not end, and what follows its last backward.
  double first_forward_seconds = 0, after_seconds = 0;
};

// What a route, or a bundle, of so many micro-batches takes at least where each unit makes its passes in whichever order is the best, as far as
// its memory goes: an estimate by which shapes are searched whose orders are synthesised later, without making one.
// `first_forward_seconds` and `after_seconds`: by stage.
//
// Of a unit: before its first forward lie those of the stages before it. A micro-batch is away for the round trip R from the end of its
// forward to the begin of its input's gradient. If memory is for k micro-batches, a unit has nothing to do from the end of its k-th
// forward to the first gradient that comes, nor, once it has worked off what it keeps, from then to the last one; and each keeps its
// bytes for all of its time, so these are in all no more than the limit times the span. Behind its last gradient of an input
// the stages before have theirs, while it makes those of weights that it has put off, for which memory is short, too. (LeastSeconds of
// order_bound.h has the same of one route; here units take turns, and sums are known.)
double LeastOrderedSeconds(StageTable& table, const RouteShape& shape, int micro_batches,
                           const std::vector<double>& first_forward_seconds,
                           const std::vector<double>& after_seconds);

// The same of a plan: by the sums of each class where all routes are alike, else by those of all classes.
double LeastOrderedSeconds(StageTable& table, SumsOfClasses& sums_of_classes, const SumModel& sums,
                           const ClassedPlan& plan);

// The same of so many replicas that are all so: their layers are summed over one class each. Of many shapes; references must outlive it.
class OrderedReplicas {
 public:
  OrderedReplicas(StageTable& table, SumsOfClasses& sums, int replicas)
      : table_(table), sums_(sums), replicas_(replicas) {}

  double LeastSeconds(const RouteShape& shape, int micro_batches);

 private:
  const OrderedStage& StageOf(const StageForm& stage);

  StageTable& table_;
  SumsOfClasses& sums_;
  const int replicas_;
  std::map<std::tuple<int, int, int, bool, int, int>, OrderedStage> known_;
};

}  // namespace medley
