// Schedules of pipelines whose routes pass units more than once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "runtime/ir/plan/order_text.h"
#include "runtime/ir/program/evaluate_orders.h"
#include "runtime/ir/program/random_pipeline.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// `ranges` turns through `units` in a ring, each stage taking 1 for each pass.
TimedPipeline Ring(int units, int ranges, int micro_batches) {
  TimedPipeline pipeline{.units = units, .routes = {{{}, micro_batches}}};
  for (int s = 0; s < units * ranges; ++s) {
    pipeline.routes[0].stages.push_back({.unit = s % units,
                                         .chunk = s / units,
                                         .forward_seconds = 1,
                                         .input_gradient_seconds = 1,
                                         .weight_gradient_seconds = 1});
  }
  return pipeline;
}

// Down the units and back up. As ranges of a unit never touch, the last one has one, twice as long.
TimedPipeline Valley(int units, int micro_batches) {
  TimedPipeline pipeline{.units = units, .routes = {{{}, micro_batches}}};
  for (int s = 0; s < 2 * units - 1; ++s) {
    const double seconds = s == units - 1 ? 2 : 1;
    pipeline.routes[0].stages.push_back({.unit = s < units ? s : 2 * units - 2 - s,
                                         .chunk = s < units ? 0 : 1,
                                         .forward_seconds = seconds,
                                         .input_gradient_seconds = seconds,
                                         .weight_gradient_seconds = seconds,
                                         .kept = seconds,
                                         .deferred = seconds});
  }
  return pipeline;
}

const auto kNamed = {Schedule::kOneForwardOneBackward, Schedule::kGPipe,
                     Schedule::kZeroBubbleH1,          Schedule::kInterleaved1F1B,
                     Schedule::kInterleavedGPipe,      Schedule::kZeroBubbleV};

TEST_CASE("every schedule runs each pass of any pipeline once, in a legal order, and ends", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  const TimedPipeline pipeline = RandomPipeline(seed);
  const PassGraph graph(pipeline);
  for (const Schedule schedule : kNamed) {
    CAPTURE(seed, NameOf(schedule));
    const std::vector<UnitOrder> orders = ScheduleOrders(schedule, pipeline);
    REQUIRE(static_cast<int>(orders.size()) == pipeline.units);
    for (int u = 0; u < pipeline.units; ++u) {
      CAPTURE(u, FormatOrder(orders[u]));
      std::map<std::tuple<int, int, Kind>, int> done;
      for (const auto& [kind, visit, micro_batch] : orders[u]) {
        const auto times = [&, v = visit, m = micro_batch](Kind k) { return done[{v, m, k}]; };
        REQUIRE(++done[{visit, micro_batch, kind}] == 1);
        if (kind != Kind::kForward) CHECK(times(Kind::kForward) == 1);
        if (kind == Kind::kWeightGradient) CHECK(times(Kind::kInputGradient) == 1);
        CHECK(times(Kind::kBackward) + times(Kind::kInputGradient) <= 1);
      }
      int passes = 0;
      for (const int s : graph.StagesOf(u)) passes += graph.stages()[s].micro_batches;
      int forwards = 0, last_gradients = 0;
      for (const UnitOp& op : orders[u]) {
        forwards += op.kind == Kind::kForward ? 1 : 0;
        last_gradients += op.kind == Kind::kBackward || op.kind == Kind::kWeightGradient ? 1 : 0;
      }
      CHECK(forwards == passes);
      CHECK(last_gradients == passes);
    }
    const OrderTimes times = EvaluateOrders(pipeline, orders);
    CHECK(times.complete);
    CHECK(times.makespan_seconds >= LongestWorkSeconds(pipeline) * (1 - 1e-9));
    CHECK(times.period_seconds >= LongestWorkSeconds(pipeline) * (1 - 1e-9));
    CHECK(times.period_seconds <= times.makespan_seconds * (1 + 1e-9));
  }
}

TEST_CASE("interleaved 1F1B of a ring is as published, and its bubble as many times smaller") {
  // Narayanan et al. 2021, figure 4, of the first and last of four devices.
  const std::vector<UnitOrder> published = ScheduleOrders(Schedule::kInterleaved1F1B, Ring(4, 2, 8));
  CHECK(FormatOrder(published[0]) ==
        "F0-3 F1:0-3 F4-6 B1:0 F7 B1:1 F1:4 B1:2 F1:5 B1:3 F1:6 B0 F1:7 B1-3 B1:4-7 B4-7");
  CHECK(FormatOrder(published[3]) ==
        "F0-3 F1:0 B1:0 F1:1 B1:1 F1:2 B1:2 F1:3 B1:3 F4 B0 F5 B1 F6 B2 F7 B3 F1:4 B1:4 F1:5 B1:5 F1:6 B1:6 "
        "F1:7 B1:7 B4-7");
  const int units = GENERATE(2, 3, 4, 8), ranges = GENERATE(2, 3, 4),
            micro_batches = GENERATE(1, 2, 3) * units;
  CAPTURE(units, ranges, micro_batches);
  const TimedPipeline pipeline = Ring(units, ranges, micro_batches);
  const std::vector<UnitOrder> orders = ScheduleOrders(Schedule::kInterleaved1F1B, pipeline);
  // Narayanan et al. 2021, section 2.2: (units - 1) (F + B) / ranges instead of (units - 1) (F + B).
  const double work = LongestWorkSeconds(pipeline);
  CHECK(EvaluateOrders(pipeline, orders).makespan_seconds == Approx(work + 3 * (units - 1)));
  TimedPipeline whole = Ring(units, 1, micro_batches);
  for (TimedStage& stage : whole.routes[0].stages)
    stage.forward_seconds = stage.input_gradient_seconds = stage.weight_gradient_seconds = ranges;
  CHECK(EvaluateOrders(whole, ScheduleOrders(Schedule::kOneForwardOneBackward, whole)).makespan_seconds ==
        Approx(work + 3 * (units - 1) * ranges));
}

TEST_CASE("interleaved GPipe has one range of a unit in use at a time, from the first to the last and back",
          "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  const TimedPipeline pipeline = RandomPipeline(seed);
  const PassGraph graph(pipeline);
  const std::vector<UnitOrder> orders = ScheduleOrders(Schedule::kInterleavedGPipe, pipeline);
  for (int u = 0; u < pipeline.units; ++u) {
    int chunk = 0;
    bool forwards = true;
    for (const UnitOp& op : orders[u]) {
      const int used = graph.stages()[graph.StagesOf(u)[op.visit]].chunk;
      if (op.kind == Kind::kForward) {
        CHECK(forwards);
        CHECK(used >= chunk);
      } else {
        CHECK((forwards || used <= chunk));
        forwards = false;
      }
      chunk = used;
    }
  }
}

TEST_CASE("interleaved 1F1B of micro-batches that the units do not divide ends sooner than 1F1B") {
  const TimedPipeline pipeline = GENERATE(Ring(3, 2, 7), Ring(4, 3, 10));
  const OrderTimes times = EvaluateOrders(pipeline, ScheduleOrders(Schedule::kInterleaved1F1B, pipeline)),
                   plain =
                       EvaluateOrders(pipeline, ScheduleOrders(Schedule::kOneForwardOneBackward, pipeline));
  CHECK(times.makespan_seconds < plain.makespan_seconds);
  for (int u = 0; u < pipeline.units; ++u) CHECK(times.peak_kept[u] <= plain.peak_kept[u]);
}

TEST_CASE("ZB-V keeps on every unit what 1F1B's first keeps, and its bubble is less than half of 1F1B's") {
  const int units = GENERATE(3, 4, 6, 8), micro_batches = GENERATE(2, 3) * units;
  CAPTURE(units, micro_batches);
  const TimedPipeline pipeline = Valley(units, micro_batches);
  const OrderTimes times = EvaluateOrders(pipeline, ScheduleOrders(Schedule::kZeroBubbleV, pipeline));
  for (const double kept : times.peak_kept) CHECK(kept <= 2 * units);  // half stages
  // 1F1B's of the same units, each with one whole stage.
  const double bubble = 6 * (units - 1);
  CHECK(times.makespan_seconds - LongestWorkSeconds(pipeline) < bubble / 2);
}

TEST_CASE("of several routes messages are taken in as units come to send them that all compute for as long") {
  // The second unit has twice as many micro-batches, so it takes half the time for each.
  Plan plan{
      .schedule = Schedule::kListed,
      .units = {{.devices = {"n/slow"}, .chunks = {{0, 2}}, .order = *ParseOrder("F0 F1 B0 B1")},
                {.devices = {"n/fast"}, .chunks = {{0, 2}}, .order = *ParseOrder("F0 F1 F2 F3 B0 B1 B2 B3")},
                {.devices = {"n/last"},
                 .chunks = {{2, 4}},
                 .order = *ParseOrder("F1:0 F0 F1:1 F1:2 F1 F1:3 B1:0 B0 B1:1 B1:2 B1 B1:3")}},
      .routes = {{.units = {0, 2}, .micro_batches = 2, .micro_batch_sequences = 1},
                 {.units = {1, 2}, .micro_batches = 4, .micro_batch_sequences = 1}}};
  std::vector<std::pair<int, int>> received;
  const auto receive = [&] {
    received.clear();
    for (const UnitOp& op : OrderOfUnit(plan, 2, VisitsOf(plan, 2))) {
      if (op.kind == Kind::kReceiveActivation) received.push_back({op.visit, op.micro_batch});
    }
  };
  receive();
  // Were all blocks as fast, the first micro-batches of both would come at once, and so the second ones.
  REQUIRE(received.size() == 6);
  CHECK(received[0] == std::pair(1, 0));
  CHECK(received[3] == std::pair(1, 2));
  // By their paces the first is done with both before the second is with one; not where the third has none.
  plan.units[0].paces = {{.forward_nanoseconds = 10}};
  plan.units[1].paces = {{.forward_nanoseconds = 25}};
  receive();
  CHECK(received[0] == std::pair(1, 0));
  plan.units[2].paces = {{.forward_nanoseconds = 1}};
  receive();
  CHECK(received[0] == std::pair(0, 0));
  CHECK(received[1] == std::pair(0, 1));
  CHECK(received[2] == std::pair(1, 0));
}

TEST_CASE("where units are passed once, schedules for more become those for one") {
  const int stages = GENERATE(1, 2, 5), micro_batches = GENERATE(1, 4, 9);
  const TimedPipeline pipeline = Ring(stages, 1, micro_batches);
  const auto orders = [&](Schedule schedule) { return ScheduleOrders(schedule, pipeline); };
  CHECK(orders(Schedule::kInterleaved1F1B) == orders(Schedule::kOneForwardOneBackward));
  CHECK(orders(Schedule::kInterleavedGPipe) == orders(Schedule::kGPipe));
  CHECK(orders(Schedule::kZeroBubbleV) == orders(Schedule::kZeroBubbleH1));
  for (int s = 0; s < stages; ++s)
    CHECK(orders(Schedule::kGPipe)[s] == OrderOf(Schedule::kGPipe, s, stages, micro_batches));
}

}  // namespace
}  // namespace medley
