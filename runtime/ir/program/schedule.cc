#include "runtime/ir/program/schedule.h"

#include <algorithm>
#include <cmath>

#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/interleaved_order.h"
#include "runtime/ir/program/list_schedule.h"
#include "runtime/ir/program/pass_graph.h"
#include "runtime/ir/program/pass_simulation.h"
#include "runtime/ir/program/schedule_rules.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// The same with each backward in two, of which the second comes when `most_deferred` others wait.
UnitOrder WithDeferredWeights(const UnitOrder& alternating, int most_deferred) {
  UnitOrder order;
  order.reserve(alternating.size() * 3 / 2);
  int inputs = 0, weights = 0;
  for (const UnitOp& op : alternating) {
    if (op.kind == Kind::kForward) {
      order.push_back(op);
      continue;
    }
    order.push_back({.kind = Kind::kInputGradient, .micro_batch = inputs++});
    if (inputs - weights > most_deferred)
      order.push_back({.kind = Kind::kWeightGradient, .micro_batch = weights++});
  }
  while (weights < inputs) order.push_back({.kind = Kind::kWeightGradient, .micro_batch = weights++});
  return order;
}

bool PassesUnitsOnce(const TimedPipeline& pipeline) {
  std::vector<bool> passed(pipeline.units, false);
  for (const TimedRoute& route : pipeline.routes) {
    for (const TimedStage& stage : route.stages) {
      if (passed[stage.unit]) return false;
      passed[stage.unit] = true;
    }
  }
  return true;
}

struct UnitOfPlan {
  Plan plan;
  UnitId unit;
};

// The routes that meet `unit`, those that meet their units, and so on: no pass of another route is waited for there. In a plan of a
// thousand devices each of which is on one route it is that route.
UnitOfPlan PartAround(const Plan& plan, UnitId unit) {
  const auto passes_unit = [&](int route) {
    const std::vector<UnitId>& units = plan.routes[route].units;
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  for (const std::vector<int>& routes : RoutesThatMeet(plan)) {
    if (std::none_of(routes.begin(), routes.end(), passes_unit)) continue;
    const std::vector<UnitId> units = UnitsOf(plan, routes);
    const auto own = std::find(units.begin(), units.end(), unit);
    return {PartOfPlan(plan, routes), static_cast<int>(own - units.begin())};
  }
  return {plan, unit};
}

// Devices that are not alike take each what keeps it at work as long as the others, so on several routes messages come in this order rather
// than in that of blocks. Times are whole numbers, whose sums and differences are exact.
void Balance(TimedPipeline& pipeline) {
  constexpr double kOfStep = 1 << 30;
  const std::vector<double> work = WorkSeconds(pipeline);
  for (TimedRoute& route : pipeline.routes) {
    for (TimedStage& stage : route.stages) {
      const double unit = kOfStep / work[stage.unit];
      for (const auto seconds : {&TimedStage::forward_seconds, &TimedStage::input_gradient_seconds,
                                 &TimedStage::weight_gradient_seconds})
        stage.*seconds = std::max(1.0, std::round(stage.*seconds * unit));
    }
  }
}

// The clock in which a plan that lists orders places them.
TimedPipeline ClockOf(const Plan& plan) {
  TimedPipeline pipeline = NominalPipeline(plan);
  const auto is_paced = [](const Unit& unit) { return unit.paces.size() == unit.chunks.size(); };
  if (!std::all_of(plan.units.begin(), plan.units.end(), is_paced)) {
    if (!PassesEachUnitOnce(plan)) Balance(pipeline);
    return pipeline;
  }
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    std::vector<TimedStage>& stages = pipeline.routes[r].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      const Pace& pace = plan.units[stages[s].unit].paces[stages[s].chunk];
      const auto seconds = [&](int64_t nanoseconds) {
        return static_cast<double>(nanoseconds) * plan.routes[r].micro_batch_sequences;
      };
      stages[s].forward_seconds = seconds(pace.forward_nanoseconds);
      stages[s].input_gradient_seconds = seconds(pace.input_gradient_nanoseconds);
      stages[s].weight_gradient_seconds = seconds(pace.weight_gradient_nanoseconds);
      stages[s].split_seconds = seconds(pace.split_nanoseconds);
      if (s + 1 < stages.size()) stages[s].message_seconds = seconds(pace.message_nanoseconds);
    }
  }
  return pipeline;
}

// What a schedule becomes where routes pass units once.
Schedule OncePassed(Schedule schedule) {
  switch (schedule) {
    case Schedule::kInterleaved1F1B:
      return Schedule::kOneForwardOneBackward;
    case Schedule::kInterleavedGPipe:
      return Schedule::kGPipe;
    case Schedule::kZeroBubbleV:
      return Schedule::kZeroBubbleH1;
    default:
      return schedule;
  }
}

// Adds what `unit` takes in to its passes, in the time of a simulation that has run all units' passes.
UnitOrder WithReceives(const PassGraph& graph, const PassSimulation& simulation, const UnitOrder& passes,
                       UnitId unit) {
  struct TimedOp {
    double at;
    UnitOp op;
  };
  std::vector<TimedOp> ops;
  ops.reserve(2 * passes.size());
  for (const UnitOp& op : passes) {
    const int s = graph.StagesOf(unit)[op.visit];
    const PassGraph::Stage& stage = graph.stages()[s];
    const bool forward = op.kind == Kind::kForward;
    const PassKind kind = forward ? PassKind::kForward : PassKind::kInputGradient;
    const bool receives = forward ? !stage.first() : !stage.last() && op.kind != Kind::kWeightGradient;
    if (receives) {
      const int sender = graph.PassOf(forward ? s - 1 : s + 1, kind, op.micro_batch);
      ops.push_back(
          {simulation.EndOf(sender),
           {forward ? Kind::kReceiveActivation : Kind::kReceiveGradient, op.visit, op.micro_batch}});
    }
    const PassKind own = op.kind == Kind::kWeightGradient ? PassKind::kWeightGradient : kind;
    ops.push_back({simulation.BeginOf(graph.PassOf(s, own, op.micro_batch)), op});
  }
  // What arrives at a moment comes before what begins then.
  std::stable_sort(ops.begin(), ops.end(), [](const TimedOp& a, const TimedOp& b) {
    return a.at != b.at ? a.at < b.at : !IsPass(a.op.kind) && IsPass(b.op.kind);
  });
  UnitOrder order;
  order.reserve(ops.size());
  for (const TimedOp& op : ops) order.push_back(op.op);
  return order;
}

}  // namespace

std::vector<UnitOrder> ScheduleOrders(Schedule schedule, const TimedPipeline& pipeline) {
  if (PassesUnitsOnce(pipeline)) {
    std::vector<UnitOrder> orders(pipeline.units);
    for (const TimedRoute& route : pipeline.routes) {
      const int stages = static_cast<int>(route.stages.size());
      for (int s = 0; s < stages; ++s)
        orders[route.stages[s].unit] = OrderOf(schedule, s, stages, route.micro_batches);
    }
    return orders;
  }
  if (schedule == Schedule::kInterleaved1F1B) {
    std::vector<UnitOrder> published = PublishedInterleavedOrders(pipeline);
    if (!published.empty()) return published;
  }
  const PassGraph graph(pipeline);
  PassSimulation simulation(graph, Direction::kOnwards);
  PassOrders orders;
  ScheduleByList(graph, RuleOf(schedule, graph), std::vector<double>(graph.units(), 0), simulation, orders);
  return OpsOf(graph, orders);
}

UnitOrder OrderOfUnit(const Plan& plan, UnitId unit, const Visits& visits) {
  const bool listed = plan.schedule == Schedule::kListed;
  if (listed || !PassesEachUnitOnce(plan)) {
    const UnitOfPlan part = listed ? PartAround(plan, unit) : UnitOfPlan{plan, unit};
    const TimedPipeline pipeline = listed ? ClockOf(part.plan) : NominalPipeline(part.plan);
    std::vector<UnitOrder> orders;
    if (listed) {
      for (const Unit& each : part.plan.units) orders.push_back(each.order);
    } else {
      orders = ScheduleOrders(plan.schedule, pipeline);
    }
    const PassGraph graph(pipeline);
    PassSimulation simulation(graph, Direction::kOnwards);
    simulation.RunOrders(PassesOf(graph, orders), std::vector<double>(graph.units(), 0));
    return WithReceives(graph, simulation, orders[part.unit], part.unit);
  }
  const Visit& visit = visits.front();
  UnitOrder order;
  order.reserve(4 * visit.micro_batches);
  for (const UnitOp& op : OrderOf(plan.schedule, visit.stage, visit.stages, visit.micro_batches)) {
    const bool forward = op.kind == Kind::kForward;
    const bool receives = forward ? !visit.first() : !visit.last() && op.kind != Kind::kWeightGradient;
    if (receives)
      order.push_back({forward ? Kind::kReceiveActivation : Kind::kReceiveGradient, 0, op.micro_batch});
    order.push_back(op);
  }
  return order;
}

UnitOrder OrderOf(Schedule schedule, StageId stage, int stages, int micro_batches) {
  const auto alternating = [&](int ahead) {
    return Alternating(std::min(ahead, micro_batches), micro_batches,
                       [](Kind kind, int m) { return UnitOp{.kind = kind, .micro_batch = m}; });
  };
  switch (OncePassed(schedule)) {
    case Schedule::kOneForwardOneBackward:
      return alternating(stages - stage - 1);
    case Schedule::kGPipe:
      return alternating(micro_batches);
    case Schedule::kZeroBubbleH1:
      return WithDeferredWeights(alternating(stages - stage - 1), stage);
    default:
      return {};
  }
}

double LeastPassesSeconds(Schedule schedule, const StageWork& stage) {
  const double m = stage.micro_batches, both = stage.forward_seconds + stage.backward_seconds;
  // It computes all the time, or its messages follow each other without a pause.
  const double least = std::max(m * both, stage.round_trip_seconds + (m - 1) * stage.message_seconds);
  switch (schedule) {
    case Schedule::kOneForwardOneBackward: {
      // Only `alive` forwards come before the first backward, and a forward waits for the backward `alive`
      // earlier.
      const int alive = std::min(stage.from_end, stage.micro_batches);
      return std::max(
          {least,
           stage.round_trip_seconds + (m - alive) * stage.forward_seconds + (m - 1) * stage.backward_seconds,
           stage.round_trip_seconds * (1 + (stage.micro_batches - 1) / alive)});
    }
    case Schedule::kGPipe:
      // All forwards, the last one's round trip, all backwards.
      return std::max(least, stage.round_trip_seconds + (m - 1) * both);
    case Schedule::kZeroBubbleH1:
      // A round trip is shorter than said: the weights' gradients are no part of it.
      return m * both;
    case Schedule::kInterleaved1F1B:
    case Schedule::kInterleavedGPipe:
    case Schedule::kZeroBubbleV:
    case Schedule::kListed:
      // The unit may have other stages meanwhile, and an order may be any.
      return m * both;
  }
  return least;
}

}  // namespace medley
