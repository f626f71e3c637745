#include "coordinator/predictor/alike_routes.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/group_buckets.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/routes_alone.h"
#include "coordinator/predictor/stage_groups.h"
#include "coordinator/predictor/step_of_groups.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/plan/part_of_plan.h"

namespace medley {
namespace {

absl::Status CheckIsPredicted(const Plan& plan, const ModelConfig& model) {
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    for (const UnitId u : plan.routes[r].units) {
      const Unit& unit = plan.units[u];
      const char* has = unit.lives_on_peers()    ? "layers with its holders"
                        : ShareKeys(unit, model) ? "ranks that share key-value heads"
                                                 : nullptr;
      if (has == nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat("routes[", r, "]: unit ", u.value(), " has ", has,
                                                     "; such plans are predicted whole alone"));
    }
  }
  return absl::OkStatus();
}

// What routes have in common with all that are told by the same simulation, but for the number of micro-batches.
struct KindOfSets {
  std::string name;
  int micro_batches = 0;
  friend auto operator<=>(const KindOfSets&, const KindOfSets&) = default;
};

}  // namespace

AlikeRoutePredictor::AlikeRoutePredictor(const PlanningProblem& problem)
    : problem_(problem),
      classes_(DeviceClassesOf(problem)),
      class_of_(problem.devices.size()),
      device_by_name_(DevicesByName(problem)),
      sums_(problem, class_of_),
      ways_(problem) {
  for (size_t c = 0; c < classes_.size(); ++c) {
    for (const std::vector<int>& host : classes_[c].hosts) {
      for (const int d : host) class_of_[d] = static_cast<int>(c);
    }
  }
}

absl::StatusOr<double> AlikeRoutePredictor::Predict(const Plan& plan) {
  RETURN_IF_ERROR(CheckIsPredicted(plan, problem_.shape.model));
  ASSIGN_OR_RETURN(const std::vector<std::vector<int>> devices_of_unit, DevicesOfUnits(plan));
  RoutesAlone alone(problem_, ways_, plan, devices_of_unit);
  std::map<KindOfSets, std::vector<std::vector<int>>> sets_of_kind;
  for (std::vector<int>& routes : RoutesThatMeet(plan)) {
    const int micro_batches = plan.routes[routes.front()].micro_batches;
    const std::string kind = absl::StrCat(KindOf(plan, routes), alone.DescribeAtOnce(routes));
    sets_of_kind[{kind, micro_batches}].push_back(std::move(routes));
  }
  StageGroups groups;
  for (const auto& [kind, sets] : sets_of_kind) {
    SimulatedSet first{PartOfPlan(plan, sets.front()), alone.ProblemOf(sets.front()), {}};
    ASSIGN_OR_RETURN(first.last_backwards, last_backwards_.Of(kind.name, first.alone, first.set));
    RETURN_IF_ERROR(AddGroups(plan, devices_of_unit, sets, first, groups));
  }
  const std::vector<GroupBucket> buckets =
      BucketsOf(problem_.shape.model, plan.shards_optimizer, groups.all, sums_);
  return SecondsOfGroups(problem_, ways_, plan.shards_optimizer, buckets, std::move(groups));
}

absl::StatusOr<std::vector<std::vector<int>>> AlikeRoutePredictor::DevicesOfUnits(const Plan& plan) const {
  ASSIGN_OR_RETURN(const std::vector<int> devices, DevicesOfRanks(device_by_name_, plan));
  std::vector<std::vector<int>> devices_of_unit;
  std::set<int> processors;
  Rank rank = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    std::vector<int>& of_unit = devices_of_unit.emplace_back();
    for (const std::string& name : plan.units[u].devices) {
      of_unit.push_back(devices[rank]);
      if (!processors.insert(problem_.devices[devices[rank]].processor).second)
        return absl::InvalidArgumentError(absl::StrCat("units[", u, "]: ", name, " shares its processor"));
      ++rank;
    }
  }
  return devices_of_unit;
}

std::string AlikeRoutePredictor::KindOf(const Plan& plan, const std::vector<int>& routes,
                                        bool by_hosts) const {
  std::string key = FormOf(plan, routes);
  std::map<int, int> hosts;
  for (const UnitId u : UnitsOf(plan, routes)) {
    for (const std::string& name : plan.units[u].devices) {
      const int d = DeviceNamed(name);
      absl::StrAppend(&key, ",", ClassOf(d));
      if (!by_hosts) continue;
      const int host = hosts.emplace(HostOf(problem_, d), static_cast<int>(hosts.size())).first->second;
      absl::StrAppend(&key, "h", host);
    }
  }
  return key;
}

int AlikeRoutePredictor::DeviceNamed(const std::string& name) const {
  const auto found = device_by_name_.find(name);
  return found == device_by_name_.end() ? -1 : found->second;
}

}  // namespace medley
