#include "coordinator/planner/classes/route_orders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/techniques/order_problem.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

// Makes room on the devices of a route for what other replicas keep of its optimizer's state.
void LeaveToOthers(const Plan& alone, double optimizer_share, PlanningProblem& problem) {
  size_t device = 0;
  for (size_t s = 0; s < alone.units.size(); ++s) {
    const Bytes optimizer =
        MemoryOfRank(alone, FirstRankOf(alone, static_cast<int>(s)), problem.shape).optimizer;
    const Bytes others = {static_cast<int64_t>((1 - optimizer_share) * static_cast<double>(optimizer.value))};
    for (size_t rank = 0; rank < alone.units[s].devices.size(); ++rank) {
      DeviceCost& cost = problem.devices[device++];
      cost.room.memory += others;
      for (ShareCost& share : cost.shares) share.room.memory += others;
    }
  }
}

}  // namespace

RouteOrders::Orders RouteOrders::FindOrders(const Plan& plan, int route, Schedule schedule) const {
  const Plan alone = PartOfPlan(plan, {route});
  std::vector<int> devices;
  for (const Unit& unit : alone.units) {
    for (const std::string& name : unit.devices) devices.push_back(predictor_.DeviceNamed(name));
  }
  PlanningProblem problem = OnDevices(predictor_.problem(), devices);
  if (plan.shards_optimizer) LeaveToOthers(alone, OwnShare(static_cast<int>(plan.routes.size())), problem);
  const auto orders_of = [&](Schedule named) { return ScheduleOrders(named, NominalPipeline(alone)); };
  Orders orders{orders_of(Schedule::kOneForwardOneBackward)};
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, alone);
  if (!seconds.ok() || !HasPipeline(alone)) return orders;
  const double below = *seconds * (1 - kLeastGain);
  std::optional<PredictedPlan> faster;
  if (schedule == Schedule::kListed) {
    faster = WithSynthesisedOrder(problem, alone, below);
  } else {
    Plan named = WithOrders(alone, orders_of(schedule));
    const absl::StatusOr<double> named_seconds = PredictStepSeconds(problem, named);
    if (named_seconds.ok() && *named_seconds < below && FitsMemory(problem, named))
      faster = {std::move(named), *named_seconds};
  }
  if (!faster) return orders;
  orders = {{}, true};
  for (Unit& unit : faster->plan.units) orders.of_stages.push_back(std::move(unit.order));
  return orders;
}

const RouteOrders::Orders& RouteOrders::OrdersOf(const Plan& plan, int route, Schedule schedule) {
  const std::string kind = absl::StrCat(predictor_.KindOf(plan, route), "#", plan.routes[route].micro_batches,
                                        "/", plan.shards_optimizer ? plan.routes.size() : 1);
  const auto [place, is_new] = known_.try_emplace({schedule, kind});
  if (is_new) place->second = FindOrders(plan, route, schedule);
  return place->second;
}

std::optional<OrderedPlan> RouteOrders::Order(const Plan& plan, Schedule schedule) {
  const auto has_windows = [](const Unit& unit) { return unit.has_windows(); };
  if (std::any_of(plan.units.begin(), plan.units.end(), has_windows)) return std::nullopt;
  std::vector<UnitOrder> of_units(plan.units.size());
  std::set<const Orders*> kinds, faster;
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    const Route& route = plan.routes[r];
    const Orders& orders = OrdersOf(plan, static_cast<int>(r), schedule);
    kinds.insert(&orders);
    if (orders.is_faster) faster.insert(&orders);
    for (size_t s = 0; s < route.units.size(); ++s) of_units[route.units[s].value()] = orders.of_stages[s];
  }
  if (faster.empty()) return std::nullopt;
  OrderedPlan ordered{plan, static_cast<int>(kinds.size()), static_cast<int>(faster.size())};
  const std::vector<Schedule>& named = predictor_.problem().constraints.schedules;
  if (faster.size() == kinds.size() && std::count(named.begin(), named.end(), schedule) > 0) {
    ordered.plan.schedule = schedule;  // its name says it all
  } else {
    ordered.plan = WithOrders(plan, std::move(of_units));
  }
  return ordered;
}

}  // namespace medley
