#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/group_sums.h"
#include "coordinator/predictor/last_backwards.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/sums_by_make_up.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The step of a plan of many devices in which few routes share units: those that do are a set (RoutesThatMeet), and sets meet in
// their sums of gradients alone. Of sets that are alike (in devices, links, blocks and micro-batches) one is simulated as PredictStep does
// (LastBackwards), by which units that do the same become groups (StageGroup); and then the end of the step, when sums over all holders follow
// the last backwards, is worked out by groups (SecondsOfGroups). A plan of a thousand devices takes milliseconds. What was asked once of
// devices of the problem, whatever the plan, is remembered.
//
// For small plans it is what PredictStep says, up to what a sum's messages and a pipeline's take from each other. What
// a sum over more than kMostSummed members takes is extrapolated from smaller groups of the same make-up, for each
// algorithm by how its number of rounds grows. Devices of a host that slow each other down count as if all that the
// plan uses compute at once.
//
// Where layers live in host memory, their copies at the end of a step overlap with all else but the first and the last.
//
// InvalidArgument: as PredictStep; or two units share a processor ("units[3]: ..."), or layers live with their holders
// ("routes[3]: ..."), which this prediction does not know.
class AlikeRoutePredictor {
 public:
  // `problem` must outlive it.
  explicit AlikeRoutePredictor(const PlanningProblem& problem);

  // Of a step, in seconds.
  absl::StatusOr<double> Predict(const Plan& plan);

  const PlanningProblem& problem() const { return problem_; }
  const std::vector<DeviceClass>& classes() const { return classes_; }
  int ClassOf(int device) const { return class_of_[device]; }
  int DeviceNamed(const std::string& name) const;  // -1: there is none
  // Of each unit of a plan, in the order of its ranks. InvalidArgument: one is not in the problem, or two share a processor, so that
  // what one does depends on what the other does ("units[3]...").
  absl::StatusOr<std::vector<std::vector<int>>> DevicesOfUnits(const Plan& plan) const;
  // Equal for routes that take the same times, but for what sums cost: of one route with equally many micro-batches, of several, which
  // are a set (RoutesThatMeet), as they are. Of a plan that can be predicted here. `by_hosts`: false: whichever of their devices share a
  // host, on which messages depend.
  std::string KindOf(const Plan& plan, const std::vector<int>& routes, bool by_hosts = true) const;
  // Of sums over these devices, or over others of the same make-up, which is how many of each class are on each host;
  // so many such sums share the cards of these hosts.
  GroupSums& SumsOver(std::vector<int> devices, int at_once = 1, bool on_hosts = false) {
    return sums_.Over(std::move(devices), at_once, on_hosts);
  }
  // What is known of sums over some of them.
  SumSamples& samples() { return sums_.samples(); }
  const SharedWays& ways() const { return ways_; }

 private:
  const PlanningProblem& problem_;
  const std::vector<DeviceClass> classes_;
  std::vector<int> class_of_;
  const std::unordered_map<std::string, int> device_by_name_;
  LastBackwards last_backwards_;
  SumsByMakeUp sums_;
  const SharedWays ways_;
};

}  // namespace medley
