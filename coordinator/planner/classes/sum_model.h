#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/planner/classes/route_shape.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// What sums of gradients over many replicas take, before it is known who they are: those over a sample of devices,
// of each class in proportion to how many there are of it. Good enough to search by.
class SumModel {
 public:
  // `replicas`: of the sample at most. 1: nothing is summed. `least_degree`: of the units with which others sum, which
  // take part in every slice of those that are cut finer.
  SumModel(const PlanningProblem& problem, const std::vector<DeviceClass>& classes, int replicas,
           int least_degree);

  double Seconds(int64_t elements) const;
  // All sums of a rank of such a stage, one after another.
  double StreamSeconds(const StageTable& table, const StageForm& stage) const;
  // Of each stage of a route, behind its last backward: what of its sums is not hidden behind that, norms and the update.
  // `longest_seconds`: the longest stream of any route of the plan, which begins with the last blocks, and not before
  // this route has been through them; and which gathers parameters when all have updated them.
  std::vector<double> AfterSeconds(const StageTable& table, const RouteShape& shape,
                                   double longest_seconds) const;

 private:
  double BucketSeconds(const StageTable& table, const StageForm& stage) const;

  LinkModel by_elements_;  // straight lines between sizes, in elements for bytes; none: nothing is summed
  int least_degree_ = 1;
  int64_t bucket_elements_ = 0;
};

}  // namespace medley
