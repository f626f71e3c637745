#include "coordinator/planner/classes/route_orders.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/techniques/order_problem.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/routes_alone.h"
#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

// Of the units of a plan that hold each block.
std::vector<int> HoldersOfBlocks(const Plan& plan, const ModelConfig& model) {
  std::vector<int> holders(model.blocks(), 0);
  for (const Unit& unit : plan.units) {
    for (const BlockRange& chunk : unit.chunks) {
      for (BlockId block = chunk.first; block < chunk.end; ++block) ++holders[block.value()];
    }
  }
  return holders;
}

// Makes room on the devices of some routes for what others that hold their blocks keep of the optimizer's state. It is in no buffer that
// is larger than that of the parameters, so limits of buffers stay.
void LeaveToOthers(const Plan& alone, const std::vector<int>& holders, PlanningProblem& problem) {
  size_t device = 0;
  for (size_t u = 0; u < alone.units.size(); ++u) {
    const BlockRange& blocks = alone.units[u].chunks[0];
    const int fewest =
        *std::min_element(holders.begin() + blocks.first.value(), holders.begin() + blocks.end.value());
    const Bytes optimizer =
        MemoryOfRank(alone, FirstRankOf(alone, static_cast<int>(u)), problem.shape).optimizer;
    const Bytes others = {
        static_cast<int64_t>((1 - OwnShare(fewest)) * static_cast<double>(optimizer.value))};
    for (size_t rank = 0; rank < alone.units[u].devices.size(); ++rank) {
      DeviceCost& cost = problem.devices[device++];
      cost.room.memory += others;
      for (ShareCost& share : cost.shares) share.room.memory += others;
    }
  }
}

// Of the memory of hosts what their part of the devices is.
void LeaveHostsToOthers(const PlanningProblem& whole, PlanningProblem& problem) {
  std::map<int, int> all, own;
  for (const DeviceCost& device : whole.devices) ++all[device.host];
  for (const DeviceCost& device : problem.devices) ++own[device.host];
  for (DeviceCost& device : problem.devices) {
    if (device.host >= 0)
      device.host_memory = {device.host_memory.value / all[device.host] * own[device.host]};
  }
}

void TakePasses(const Unit& from, Unit& to) {
  to.chunks = from.chunks;
  to.recomputed_layers = from.recomputed_layers;
  to.order = from.order;
  to.paces = from.paces;
}

// Routes that are alike but for their messages.
Plan WithPassesOf(const Plan& from, Plan plan) {
  plan.schedule = Schedule::kListed;
  for (size_t u = 0; u < plan.units.size(); ++u) TakePasses(from.units[u], plan.units[u]);
  return plan;
}

// Of what 1F1B loses to an order that was found for routes of other messages, such a part is to be won by it here, too.
constexpr double kNearlyAll = 0.97;
// So many are found for themselves alone, whatever others have.
constexpr int kMostAlone = 16;

}  // namespace

// Such routes by themselves.
PlanningProblem RouteOrders::ProblemOf(const Plan& plan, const Plan& alone,
                                       const std::vector<int>& routes) const {
  std::vector<std::vector<int>> devices;
  for (const Unit& unit : plan.units) {
    std::vector<int>& of_unit = devices.emplace_back();
    for (const std::string& name : unit.devices) of_unit.push_back(predictor_.DeviceNamed(name));
  }
  PlanningProblem problem =
      RoutesAlone(predictor_.problem(), predictor_.ways(), plan, devices).ProblemOf(routes);
  LeaveHostsToOthers(predictor_.problem(), problem);
  if (plan.shards_optimizer) LeaveToOthers(alone, HoldersOfBlocks(plan, problem.shape.model), problem);
  return problem;
}

RouteOrders::Orders RouteOrders::FindOrders(const Plan& plan, const std::vector<int>& routes,
                                            Schedule schedule, std::vector<Synthesised>& of_others) {
  const bool is_bundle = routes.size() > 1;
  // By the schedules with names a unit keeps as much for each of its routes as if it had no others.
  if (is_bundle && schedule != Schedule::kListed) return {};
  const Plan alone = PartOfPlan(plan, routes);
  const PlanningProblem problem = ProblemOf(plan, alone, routes);
  const auto orders_of = [&](Schedule named) { return ScheduleOrders(named, NominalPipeline(alone)); };
  Orders orders;
  double named_seconds = 0, below = std::numeric_limits<double>::infinity();
  if (!is_bundle) {
    orders.alone = WithOrders(alone, orders_of(Schedule::kOneForwardOneBackward));
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, alone);
    if (!seconds.ok() || !HasPipeline(alone)) return orders;
    named_seconds = orders.seconds = *seconds;
    below = named_seconds * (1 - kLeastGain);
  }
  std::optional<PredictedPlan> faster;
  const auto take = [&](Plan ordered, double below_seconds) {
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, ordered);
    if (seconds.ok() && *seconds < below_seconds && FitsMemory(problem, ordered))
      faster = {std::move(ordered), *seconds};
  };
  if (schedule == Schedule::kListed) {
    for (size_t i = 0; i < of_others.size() && found_alone_ >= kMostAlone && !faster; ++i) {
      const double nearly_all = named_seconds / (1 + kNearlyAll * (of_others[i].over_named - 1));
      take(WithPassesOf(of_others[i].alone, alone), std::min(below, nearly_all));
    }
    if (!faster) {
      faster = WithSynthesisedOrder(problem, alone, below);
      ++found_alone_;
      if (faster && !is_bundle) of_others.push_back({faster->plan, named_seconds / faster->step_seconds});
    }
  } else {
    take(WithOrders(alone, orders_of(schedule)), below);
  }
  if (!faster) return orders;
  return {std::move(faster->plan), faster->step_seconds, true};
}

std::string RouteOrders::KindIn(const Plan& plan, const std::vector<int>& routes, bool by_hosts) const {
  return absl::StrCat(predictor_.KindOf(plan, routes, by_hosts), "#",
                      plan.routes[routes.front()].micro_batches, "/",
                      plan.shards_optimizer ? plan.routes.size() : 1);
}

// Those of a bundle take long to find, and of its many messages a few more stay within hosts, or fewer.
std::string RouteOrders::KindOf(const Plan& plan, const std::vector<int>& routes) const {
  return KindIn(plan, routes, /*by_hosts=*/routes.size() == 1);
}

const RouteOrders::Orders& RouteOrders::OrdersOf(const Plan& plan, const std::vector<int>& routes,
                                                 Schedule schedule) {
  const auto [place, is_new] = known_.try_emplace({schedule, KindOf(plan, routes)});
  if (is_new)
    place->second =
        FindOrders(plan, routes, schedule, synthesised_[KindIn(plan, routes, /*by_hosts=*/false)]);
  return place->second;
}

// Those of one range a unit where none of several is faster.
const RouteOrders::Orders& RouteOrders::InRangesOf(const Plan& plan, const std::vector<int>& routes) {
  const auto [place, is_new] = known_in_ranges_.try_emplace(KindOf(plan, routes));
  Orders& orders = place->second;
  if (!is_new) return orders;
  orders = OrdersOf(plan, routes, Schedule::kListed);
  if (routes.size() > 1 || !orders.alone || !HasPipeline(*orders.alone)) return orders;
  const Plan alone = PartOfPlan(plan, routes);
  PredictedPlan best = {*orders.alone, orders.seconds};
  TryInRanges(ProblemOf(plan, alone, routes), alone, best);
  if (MostRanges(best.plan) > 1) orders = {std::move(best.plan), best.step_seconds, true};
  return orders;
}

std::optional<OrderedPlan> RouteOrders::Order(const Plan& plan, Schedule schedule) {
  std::optional<OrderedPlan> ordered = OrderBy(plan, [&](const std::vector<int>& routes) -> const Orders& {
    return OrdersOf(plan, routes, schedule);
  });
  const std::vector<Schedule>& named = predictor_.problem().constraints.schedules;
  if (ordered && ordered->faster_kinds == ordered->kinds &&
      std::count(named.begin(), named.end(), schedule) > 0) {
    ordered->plan = plan;
    ordered->plan.schedule = schedule;  // its name says it all
  }
  return ordered;
}

std::optional<OrderedPlan> RouteOrders::OrderInRanges(const Plan& plan) {
  std::optional<OrderedPlan> ordered = OrderBy(
      plan, [&](const std::vector<int>& routes) -> const Orders& { return InRangesOf(plan, routes); });
  if (ordered && MostRanges(ordered->plan) == 1) return std::nullopt;
  return ordered;
}

std::optional<OrderedPlan> RouteOrders::OrderBy(
    const Plan& plan, const std::function<const Orders&(const std::vector<int>&)>& orders_of) {
  const auto has_windows = [](const Unit& unit) { return unit.has_windows(); };
  if (std::any_of(plan.units.begin(), plan.units.end(), has_windows)) return std::nullopt;
  Plan listed = plan;
  listed.schedule = Schedule::kListed;
  std::set<const Orders*> kinds, faster;
  for (const std::vector<int>& routes : RoutesThatMeet(plan)) {
    const Orders& orders = orders_of(routes);
    if (!orders.alone) return std::nullopt;
    kinds.insert(&orders);
    if (orders.is_faster) faster.insert(&orders);
    const std::vector<UnitId> units = UnitsOf(plan, routes);
    for (size_t u = 0; u < units.size(); ++u) TakePasses(orders.alone->units[u], listed.units[units[u]]);
    for (size_t r = 0; r < routes.size(); ++r) {
      std::vector<UnitId>& passed = listed.routes[routes[r]].units;
      passed.clear();
      for (const UnitId u : orders.alone->routes[r].units) passed.push_back(units[u]);
    }
  }
  if (faster.empty()) return std::nullopt;
  return OrderedPlan{std::move(listed), static_cast<int>(kinds.size()), static_cast<int>(faster.size())};
}

}  // namespace medley
