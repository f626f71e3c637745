#include "coordinator/predictor/stand_ins.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/routes_alone.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/alike_ranks.h"

namespace medley {
namespace {

// Of hosts whose ranks are told by the same ones the first, and those where some are simulated; and all racks and sites.
std::vector<char> CountedWays(const SharedWays& ways, const std::vector<int>& device_of_rank,
                              const std::vector<Rank>& stand_ins) {
  std::vector<char> counts(ways.count(), 1);
  std::vector<std::set<int>> told_by(ways.places(WayLevel::kHost));
  std::vector<bool> has_simulated(told_by.size(), false);
  for (size_t rank = 0; rank < stand_ins.size(); ++rank) {
    const int host = ways.PlaceOf(WayLevel::kHost, device_of_rank[rank]);
    if (host < 0) continue;
    told_by[host].insert(stand_ins[rank].value());
    has_simulated[host] = has_simulated[host] || stand_ins[rank] == static_cast<int>(rank);
  }
  std::set<std::set<int>> known;
  for (int host = 0; host < ways.places(WayLevel::kHost); ++host) {
    const bool counts_here = known.insert(told_by[host]).second || has_simulated[host];
    for (const bool in : {false, true}) counts[ways.WayOf(WayLevel::kHost, host, in)] = counts_here ? 1 : 0;
  }
  return counts;
}

}  // namespace

absl::StatusOr<StandInSimulation> SimulateByStandIns(AlikeRoutePredictor& predictor, const Plan& plan) {
  ASSIGN_OR_RETURN(const std::vector<std::vector<int>> devices_of_unit, predictor.DevicesOfUnits(plan));
  RoutesAlone alone(predictor.problem(), predictor.ways(), plan, devices_of_unit);
  StandInSimulation simulation;
  StandIns& stand_ins = simulation.stand_ins;
  stand_ins.of = StandInsOf(plan, [&](const std::vector<int>& routes) {
    return absl::StrCat(predictor.KindOf(plan, routes), alone.DescribeAtOnce(routes));
  });
  std::vector<int> device_of_rank;
  std::vector<bool> unit_is_simulated;
  for (const std::vector<int>& devices : devices_of_unit) {
    const size_t first = device_of_rank.size();
    unit_is_simulated.push_back(stand_ins.of[first] == static_cast<int>(first));
    device_of_rank.insert(device_of_rank.end(), devices.begin(), devices.end());
  }
  std::vector<int> simulated_routes;
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    if (unit_is_simulated[plan.routes[r].units.front()]) simulated_routes.push_back(static_cast<int>(r));
  }
  simulation.problem = alone.ProblemWith(simulated_routes);
  stand_ins.counts_way = CountedWays(predictor.ways(), device_of_rank, stand_ins.of);
  return simulation;
}

}  // namespace medley
