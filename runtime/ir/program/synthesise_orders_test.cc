#include "runtime/ir/program/synthesise_orders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "runtime/ir/plan/order_text.h"
#include "runtime/ir/program/list_schedule.h"
#include "runtime/ir/program/random_pipeline.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

bool Fits(const OrderTimes& times, const std::vector<double>& limit) {
  for (size_t u = 0; u < limit.size(); ++u) {
    if (times.peak_kept[u] > limit[u] * (1 + 1e-9)) return false;
  }
  return true;
}

double GoalOf(const OrderTimes& times, OrderGoal goal) {
  return goal == OrderGoal::kPeriod ? times.period_seconds : times.makespan_seconds;
}

// Each pass of each visit once, after what it needs of its own stage.
void CheckPasses(const TimedPipeline& pipeline, const std::vector<UnitOrder>& orders) {
  const PassGraph graph(pipeline);
  for (int u = 0; u < pipeline.units; ++u) {
    CAPTURE(u, FormatOrder(orders[u]));
    std::map<std::pair<int, int>, std::vector<Kind>> passes;
    for (const UnitOp& op : orders[u]) passes[{op.visit, op.micro_batch}].push_back(op.kind);
    size_t wanted = 0;
    for (const int s : graph.StagesOf(u)) wanted += graph.stages()[s].micro_batches;
    CHECK(passes.size() == wanted);
    for (const auto& [key, kinds] : passes) {
      CHECK((kinds == std::vector{Kind::kForward, Kind::kBackward} ||
             kinds == std::vector{Kind::kForward, Kind::kInputGradient, Kind::kWeightGradient}));
    }
  }
}

// What a named schedule keeps, the n-th being drawn, or a little more.
std::vector<double> RandomLimit(const TimedPipeline& pipeline, uint64_t seed) {
  std::vector<double> limit =
      EvaluateOrders(pipeline, ScheduleOrders(static_cast<Schedule>(seed % (kSchedules - 1)), pipeline))
          .peak_kept;
  for (double& each : limit) each *= 1 + 0.5 * static_cast<double>(seed / 7 % 3);
  return limit;
}

void CheckSynthesis(const TimedPipeline& pipeline, uint64_t seed) {
  SynthesisOptions options{.memory_limit = RandomLimit(pipeline, seed),
                           .goal = seed % 2 == 0 ? OrderGoal::kPeriod : OrderGoal::kMakespan,
                           .work_limit = 40'000,
                           .seed = seed};
  const SynthesisedOrders found = SynthesiseOrders(pipeline, options);
  REQUIRE(static_cast<int>(found.orders.size()) == pipeline.units);
  CheckPasses(pipeline, found.orders);
  const OrderTimes times = EvaluateOrders(pipeline, found.orders);
  REQUIRE(times.complete);
  CHECK(times.period_seconds == Approx(found.times.period_seconds));
  CHECK(times.makespan_seconds == Approx(found.times.makespan_seconds));
  CHECK(Fits(times, options.memory_limit));
  const double goal = GoalOf(times, options.goal);
  CHECK(goal >= found.least_seconds * (1 - 1e-9));
  for (int s = 0; s < kSchedules; ++s) {
    const Schedule schedule = static_cast<Schedule>(s);
    if (schedule == Schedule::kListed) continue;
    CAPTURE(NameOf(schedule));
    const OrderTimes named = EvaluateOrders(pipeline, ScheduleOrders(schedule, pipeline));
    if (!Fits(named, options.memory_limit)) continue;
    CHECK(goal <= GoalOf(named, options.goal) * (1 + 1e-9));
    CHECK(GoalOf(named, options.goal) >= found.least_seconds * (1 - 1e-9));
  }
  CHECK(SynthesiseOrders(pipeline, options).orders == found.orders);
}

TEST_CASE("synthesised orders are legal, within memory, not below the bound, and not behind any schedule",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{150}));
  CAPTURE(seed);
  SECTION("units passed once") { CheckSynthesis(RandomOncePassed(seed), seed); }
  SECTION("units passed more than once, by several routes") { CheckSynthesis(RandomPipeline(seed), seed); }
  SECTION("backwards that take longer in two passes") {
    TimedPipeline pipeline = seed % 2 == 0 ? RandomOncePassed(seed) : RandomPipeline(seed);
    for (TimedRoute& route : pipeline.routes) {
      for (size_t s = seed % 3 == 0 ? 1 : 0; s < route.stages.size(); ++s)
        route.stages[s].split_seconds =
            0.05 * static_cast<double>(1 + (seed + s) % 6) * route.stages[s].weight_gradient_seconds;
    }
    CheckSynthesis(pipeline, seed);
  }
}

TEST_CASE("units behind one that several routes share are all kept at work from the begin on") {
  constexpr int kBehind = 3, kEach = 8;
  TimedPipeline pipeline{.units = 1 + kBehind};
  for (int u = 1; u <= kBehind; ++u) {
    pipeline.routes.push_back(
        {{{.unit = 0, .forward_seconds = 1, .input_gradient_seconds = 1, .weight_gradient_seconds = 1},
          {.unit = u,
           .forward_seconds = kBehind,
           .input_gradient_seconds = kBehind,
           .weight_gradient_seconds = kBehind}},
         kEach});
  }
  // What the first keeps is enough for all if it begins with one micro-batch for each, and not if with several for one.
  std::vector<double> memory_limit(pipeline.units, 2 * kEach);
  memory_limit[0] = kBehind + 1;
  const SynthesisedOrders found = SynthesiseOrders(
      pipeline, {.memory_limit = memory_limit, .goal = OrderGoal::kMakespan, .work_limit = 0});
  const double work = kEach * kBehind * 3;
  INFO(found.times.makespan_seconds << " s, of which each computes for " << work);
  CHECK(found.times.makespan_seconds <= 1.1 * work);
  CHECK(found.times.makespan_seconds >= work + 1);
}

TEST_CASE("forwards that leave room do not fill a unit that keeps more between two gradients") {
  const auto stage = [](int unit) {
    return TimedStage{.unit = unit,
                      .forward_seconds = 1,
                      .input_gradient_seconds = 1,
                      .weight_gradient_seconds = 1,
                      .kept = 1,
                      .deferred = 2};
  };
  const PassGraph graph({.units = 2, .routes = {{{stage(0), stage(1)}, 6}}});
  // Forwards as soon as they can be, whatever waits.
  ListRule rule{.key = std::vector<double>(graph.passes(), 0), .memory_limit = {3, 12}};
  PassSimulation simulation(graph, Direction::kOnwards);
  PassOrders orders;
  const std::vector<double> from_zero(graph.units(), 0);
  CHECK_FALSE(ScheduleByList(graph, rule, from_zero, simulation, orders));
  rule.leaves_room = true;
  REQUIRE(ScheduleByList(graph, rule, from_zero, simulation, orders));
  CHECK(PeakKept(graph, orders)[0] == 3);
}

TEST_CASE("in buffers units keep no less, and of backwards that are whole as much", "[property]") {
  int more = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const TimedPipeline pipeline = RandomPipeline(seed);
    const PassGraph graph(pipeline);
    for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kZeroBubbleH1}) {
      const PassOrders orders = PassesOf(graph, ScheduleOrders(schedule, pipeline));
      const std::vector<double> kept = PeakKept(graph, orders), in_buffers = PeakInBuffers(graph, orders);
      std::vector<int> chunks(pipeline.units, 0);
      for (const PassGraph::Stage& stage : graph.stages())
        chunks[stage.unit.value()] = std::max(chunks[stage.unit.value()], stage.chunk + 1);
      for (int u = 0; u < pipeline.units; ++u) {
        CHECK(in_buffers[u] >= kept[u] * (1 - 1e-9));
        if (in_buffers[u] > kept[u] * (1 + 1e-9)) ++more;
        if (schedule == Schedule::kOneForwardOneBackward && chunks[u] == 1)
          CHECK(in_buffers[u] == Approx(kept[u]));
      }
    }
  }
  CHECK(more > 0);
}

TEST_CASE("in buffers lists go on as long as there is one of each kind, and keep to the limit",
          "[property]") {
  int tight = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    TimedPipeline pipeline = RandomPipeline(seed);
    pipeline.routes.resize(1);  // those of several may pass ranges in turns that no model has
    const PassGraph graph(pipeline);
    ListRule rule{.key = std::vector<double>(graph.passes()), .in_buffers = true};
    for (double& key : rule.key) key = static_cast<double>(random() % 1000);
    if (seed % 3 == 0) {
      rule.joined.resize(graph.passes());
      for (int pass = 0; pass < graph.passes(); ++pass) {
        const bool joins = graph.pass(pass).kind == PassKind::kInputGradient && random() % 2 == 0;
        rule.joined[pass] = joins ? 1 : 0;
      }
    }
    for (int u = 0; u < graph.units(); ++u) {
      KeptBuffers buffers(graph, u);
      buffers.HaveOneOfEach(graph, u, std::vector<char>(graph.stages().size(), 1));
      rule.memory_limit.push_back(buffers.total() * (1 + static_cast<double>(random() % 3) / 2));
    }
    for (const Direction direction : {Direction::kOnwards, Direction::kBackwards}) {
      CAPTURE(static_cast<int>(direction));
      PassSimulation simulation(graph, direction);
      PassOrders orders;
      REQUIRE(ScheduleByList(graph, rule, std::vector<double>(graph.units(), 0), simulation, orders));
      const std::vector<double> peaks = PeakInBuffers(graph, orders);
      for (int u = 0; u < graph.units(); ++u) {
        CHECK(peaks[u] <= rule.memory_limit[u] * (1 + 1e-6));
        if (peaks[u] >= 0.99 * rule.memory_limit[u]) ++tight;
      }
    }
  }
  CHECK(tight > 100);
}

// All orders of a unit that is passed once, micro-batches in their order, backwards in two.
std::vector<UnitOrder> AllOrders(int micro_batches) {
  std::vector<UnitOrder> all;
  UnitOrder order;
  const auto extend = [&](const auto& self, int forwards, int inputs, int weights) -> void {
    if (weights == micro_batches) return all.push_back(order);
    for (const auto& [allowed, kind, m] : {std::tuple(forwards < micro_batches, Kind::kForward, forwards),
                                           std::tuple(inputs < forwards, Kind::kInputGradient, inputs),
                                           std::tuple(weights < inputs, Kind::kWeightGradient, weights)}) {
      if (!allowed) continue;
      order.push_back({kind, 0, m});
      self(self, forwards + (kind == Kind::kForward ? 1 : 0), inputs + (kind == Kind::kInputGradient ? 1 : 0),
           weights + (kind == Kind::kWeightGradient ? 1 : 0));
      order.pop_back();
    }
  };
  extend(extend, 0, 0, 0);
  return all;
}

TEST_CASE("of few passes, synthesis finds what trying all orders finds, and the bound is below",
          "[property]") {
  int optimal = 0, bound_reached = 0, tried = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    TimedPipeline pipeline = RandomOncePassed(seed);
    pipeline.units = seed % 3 == 0 ? 3 : 2;
    if (static_cast<int>(pipeline.routes[0].stages.size()) < pipeline.units) continue;
    pipeline.routes[0].stages.resize(pipeline.units);
    pipeline.routes[0].stages.back().message_seconds = 0;
    pipeline.routes[0].micro_batches = pipeline.units == 3 ? 2 : 3;
    const std::vector<double> limit = RandomLimit(pipeline, seed);
    const OrderGoal goal = seed % 2 == 0 ? OrderGoal::kPeriod : OrderGoal::kMakespan;
    const std::vector<UnitOrder> all = AllOrders(pipeline.routes[0].micro_batches);
    const PassGraph graph(pipeline);
    OrderEvaluator evaluator(graph);
    double best = std::numeric_limits<double>::infinity();
    std::vector<size_t> choice(pipeline.units, 0);
    while (choice.back() < all.size()) {
      std::vector<UnitOrder> orders;
      for (const size_t c : choice) orders.push_back(all[c]);
      const OrderTimes times = evaluator.Evaluate(PassesOf(graph, orders));
      if (times.complete && Fits(times, limit)) best = std::min(best, GoalOf(times, goal));
      for (size_t u = 0; u < choice.size() && ++choice[u] == all.size() && u + 1 < choice.size(); ++u)
        choice[u] = 0;
    }
    const SynthesisedOrders found =
        SynthesiseOrders(pipeline, {.memory_limit = limit, .goal = goal, .work_limit = 20'000});
    if (found.orders.empty()) {
      CHECK(best == std::numeric_limits<double>::infinity());
      continue;
    }
    ++tried;
    const double reached = GoalOf(found.times, goal);
    CHECK(found.least_seconds <= std::min(best, reached) * (1 + 1e-9));
    optimal += reached <= best * (1 + 1e-9) ? 1 : 0;
    bound_reached += reached <= found.least_seconds * (1 + 1e-9) ? 1 : 0;
    CHECK(reached <= best * 1.1);
  }
  CAPTURE(optimal, bound_reached, tried);
  CHECK(tried >= 50);
  CHECK(optimal >= tried * 9 / 10);
}

// Stages of which every pass takes so long; memory as in the published figures: what is kept until the
// input's gradient counts, of as many micro-batches as 1F1B has alive, or twice as many.
struct Published {
  std::vector<double> seconds;
  int micro_batches;
  double of_1f1b, of_ours, of_ours_with_twice_the_memory;  // periods over the busiest stage's work, at most
};

TEST_CASE("published pipelines come as close to their busiest stage's work as published, or closer") {
  const auto c = GENERATE(values<Published>({
      {{1, 1.3, 0.8, 1.6}, 8, 1.258, 1.000, 1.000},
      {{1, 1, 1.15, 1.15, 0.9, 0.9, 1.2, 1.05}, 24, 1.262, 1.060, 1.000},
      {{1, 1, 1, 1, 1, 1, 1, 1}, 16, 1.521, 1.204, 1.029},
  }));
  const int stages = static_cast<int>(c.seconds.size());
  CAPTURE(stages);
  TimedPipeline pipeline{.units = stages, .routes = {{{}, c.micro_batches}}};
  SynthesisOptions options;
  for (const double seconds : c.seconds) {
    const int s = static_cast<int>(pipeline.routes[0].stages.size());
    pipeline.routes[0].stages.push_back({.unit = s,
                                         .forward_seconds = seconds,
                                         .input_gradient_seconds = seconds,
                                         .weight_gradient_seconds = seconds,
                                         .message_seconds = s + 1 < stages ? 0.1 : 0,
                                         .kept = 1,
                                         .deferred = 0});
    options.memory_limit.push_back(stages - s);
  }
  const double work = LongestWorkSeconds(pipeline);
  const OrderTimes alternating =
      EvaluateOrders(pipeline, ScheduleOrders(Schedule::kOneForwardOneBackward, pipeline));
  CHECK(alternating.period_seconds / work == Approx(c.of_1f1b).margin(5e-4));
  CHECK(Fits(alternating, options.memory_limit));
  CHECK(SynthesiseOrders(pipeline, options).times.period_seconds / work <= c.of_ours + 5e-4);
  for (double& limit : options.memory_limit) limit *= 2;
  CHECK(SynthesiseOrders(pipeline, options).times.period_seconds / work <=
        c.of_ours_with_twice_the_memory + 5e-4);
}

TEST_CASE("backwards stay whole where that takes less time and nobody waits for them") {
  // Of two stages, under a limit that lets the first go on while it waits for the second.
  TimedPipeline pipeline{.units = 2};
  pipeline.routes.push_back({.stages = {{.unit = 0}, {.unit = 1}}, .micro_batches = 8});
  for (TimedStage& stage : pipeline.routes[0].stages) {
    stage.forward_seconds = stage.input_gradient_seconds = stage.weight_gradient_seconds = 1;
    stage.split_seconds = 0.25;
  }
  const SynthesisedOrders found =
      SynthesiseOrders(pipeline, {.memory_limit = {8, 8}, .goal = OrderGoal::kPeriod});
  CheckPasses(pipeline, found.orders);
  CHECK(found.least_seconds < found.times.period_seconds);
  // All apart it is 24.
  CHECK(found.times.period_seconds < 8 * 2.75 + 1);
  for (const UnitOrder& order : found.orders) {
    int apart = 0;
    for (const UnitOp& op : order) apart += op.kind == Kind::kWeightGradient ? 1 : 0;
    CHECK(apart <= 4);
  }
  // A step by itself: the first unit has nothing else to do at the end.
  const SynthesisedOrders alone =
      SynthesiseOrders(pipeline, {.memory_limit = {8, 8}, .goal = OrderGoal::kMakespan});
  CHECK(alone.times.makespan_seconds < 8 * 2.75 + 1 + 1.75);
}

TEST_CASE("a unit without memory for gradients apart leaves those of others apart") {
  // Two stages; what lies between the gradients of a micro-batch is as large as what it keeps. The first has room for what 1F1B
  // keeps of it, the second for more.
  TimedPipeline pipeline{.units = 2};
  pipeline.routes.push_back({.stages = {{.unit = 0}, {.unit = 1}}, .micro_batches = 8});
  for (TimedStage& stage : pipeline.routes[0].stages) {
    stage.forward_seconds = stage.input_gradient_seconds = stage.weight_gradient_seconds = 1;
    stage.kept = 1;
    stage.deferred = 2;
  }
  const std::vector<UnitOrder> named = ScheduleOrders(Schedule::kOneForwardOneBackward, pipeline);
  CHECK(EvaluateOrders(pipeline, named).makespan_seconds == Approx(27));
  const SynthesisedOrders found =
      SynthesiseOrders(pipeline, {.memory_limit = {2, 4}, .goal = OrderGoal::kMakespan});
  REQUIRE(found.orders.size() == 2);
  CheckPasses(pipeline, found.orders);
  // The first unit's backwards take two seconds each, and none begins before the third one.
  CHECK(found.times.makespan_seconds >= 25);
  CHECK(found.times.makespan_seconds <= 26);
  for (const UnitOp& op : found.orders[0]) CHECK(op.kind != Kind::kWeightGradient);
}

TEST_CASE("where not one micro-batch fits, there are no orders") {
  const TimedPipeline pipeline = RandomOncePassed(3);
  const SynthesisedOrders found =
      SynthesiseOrders(pipeline, {.memory_limit = std::vector<double>(pipeline.units, 0.01)});
  CHECK(found.orders.empty());
  CHECK_FALSE(found.times.complete);
}

}  // namespace
}  // namespace medley
