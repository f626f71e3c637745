#include "runtime/program/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

// The most micro-batches that are between their forward and their backward at once.
int PeakInFlight(const std::vector<StageOp>& order) {
  int alive = 0, peak = 0;
  for (const StageOp& op : order) {
    alive += op.kind == StageOp::Kind::kForward ? 1 : -1;
    peak = std::max(peak, alive);
  }
  return peak;
}

TEST_CASE("every micro-batch goes forward once and then backward once, in order") {
  const Schedule schedule = GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe);
  const int stages = GENERATE(1, 2, 3, 8);
  const int micro_batches = GENERATE(1, 2, 5, 16);
  for (int stage = 0; stage < stages; ++stage) {
    CAPTURE(NameOf(schedule), stages, stage, micro_batches);
    int forwards = 0, backwards = 0;
    for (const StageOp& op : OrderOf(schedule, stage, stages, micro_batches)) {
      int& next = op.kind == StageOp::Kind::kForward ? forwards : backwards;
      CHECK(op.micro_batch == next++);
      CHECK(backwards <= forwards);
    }
    CHECK(forwards == micro_batches);
    CHECK(backwards == micro_batches);
  }
}

TEST_CASE("1F1B keeps at most stages - stage micro-batches alive, GPipe all") {
  const int stages = GENERATE(1, 2, 5);
  const int micro_batches = GENERATE(1, 3, 12);
  for (int stage = 0; stage < stages; ++stage) {
    CAPTURE(stages, stage, micro_batches);
    const auto alternating = OrderOf(Schedule::kOneForwardOneBackward, stage, stages, micro_batches);
    CHECK(PeakInFlight(alternating) == std::min(stages - stage, micro_batches));
    CHECK(PeakInFlight(OrderOf(Schedule::kGPipe, stage, stages, micro_batches)) == micro_batches);
  }
}

TEST_CASE("units that are passed once take in what they need just before each pass, in their stage's order") {
  Plan plan{.schedule = GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe)};
  plan.units = {{{"a/0"}, {{0, 2}}}, {{"b/0"}, {{2, 4}}}, {{"c/0"}, {{4, 6}}}};
  plan.routes = {{{0, 1, 2}, 5, 1}};
  for (int u = 0; u < 3; ++u) {
    CAPTURE(u);
    std::vector<StageOp> passes;
    const std::vector<UnitOp> order = OrderOfUnit(plan, u, VisitsOf(plan, u));
    for (size_t i = 0; i < order.size(); ++i) {
      using Kind = UnitOp::Kind;
      const UnitOp& op = order[i];
      CHECK(op.visit == 0);
      const bool forward = op.kind == Kind::kForward, backward = op.kind == Kind::kBackward;
      if (!forward && !backward) continue;
      passes.push_back({forward ? StageOp::Kind::kForward : StageOp::Kind::kBackward, op.micro_batch});
      const bool receives = forward ? u > 0 : u < 2;
      if (!receives) continue;
      REQUIRE(i > 0);
      CHECK(order[i - 1] ==
            UnitOp{forward ? Kind::kReceiveActivation : Kind::kReceiveGradient, 0, op.micro_batch});
    }
    CHECK(passes == OrderOf(plan.schedule, u, 3, 5));
  }
}

// When each stage of a pipeline gets its first micro-batch, and when its last backward ends. Messages travel
// side by side.
struct StageTimes {
  double arrival = 0, end = 0;
};
std::vector<StageTimes> Simulate(Schedule schedule, const std::vector<StageWork>& work) {
  const int stages = static_cast<int>(work.size()), micro_batches = work[0].micro_batches;
  constexpr double kNever = -1;
  using Ends = std::vector<std::vector<double>>;
  Ends forward(stages, std::vector<double>(micro_batches, kNever)), backward = forward;
  std::vector<size_t> next(stages, 0);
  std::vector<double> now(stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s) {
      const std::vector<StageOp> order = OrderOf(schedule, s, stages, micro_batches);
      while (next[s] < order.size()) {
        const StageOp& op = order[next[s]];
        const bool forwards = op.kind == StageOp::Kind::kForward;
        const int from = forwards ? s - 1 : s + 1;
        const bool waits = forwards ? s > 0 : s + 1 < stages;
        const double come = !waits ? 0 : (forwards ? forward : backward)[from][op.micro_batch];
        if (come == kNever) break;
        const double message = !waits ? 0 : work[forwards ? s - 1 : s].message_seconds;
        now[s] = std::max(now[s], come + message) +
                 (forwards ? work[s].forward_seconds : work[s].backward_seconds);
        (forwards ? forward : backward)[s][op.micro_batch] = now[s];
        ++next[s];
        moved = true;
      }
    }
  }
  std::vector<StageTimes> times(stages);
  for (int s = 0; s < stages; ++s) {
    REQUIRE(backward[s].back() != kNever);
    times[s] = {forward[s].front() - work[s].forward_seconds, backward[s].back()};
  }
  return times;
}

TEST_CASE(
    "no stage is done earlier than its schedule's bound, which is exact for a single one and for equal ones "
    "under GPipe",
    "[property]") {
  const Schedule schedule = GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe);
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(NameOf(schedule), seed);
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const bool equal = seed % 4 == 0;
  std::vector<StageWork> work(1 + random() % 6);
  const int stages = static_cast<int>(work.size()), micro_batches = static_cast<int>(1 + random() % 12);
  double round_trip = 0;
  for (int s = stages - 1; s >= 0; --s) {
    work[s] = {.micro_batches = micro_batches,
               .from_end = stages - s,
               .forward_seconds = equal ? 1 : real(0.1, 2),
               .backward_seconds = equal ? 2 : real(0.1, 4),
               .message_seconds = s + 1 == stages || equal ? 0 : real(0, 2)};
    round_trip += work[s].forward_seconds + work[s].backward_seconds + 2 * work[s].message_seconds;
    work[s].round_trip_seconds = round_trip;
  }
  const std::vector<StageTimes> times = Simulate(schedule, work);
  for (int s = 0; s < stages; ++s) {
    CAPTURE(s);
    const double least = LeastPassesSeconds(schedule, work[s]);
    CHECK(times[s].end - times[s].arrival >= least * (1 - 1e-12));
    if (stages == 1 || (equal && schedule == Schedule::kGPipe && s == 0))
      CHECK(times[s].end - times[s].arrival == Approx(least));
  }
}

}  // namespace
}  // namespace medley
