#include "runtime/ir/program/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>

namespace medley {
namespace {

// The most micro-batches that are between their forward and their last gradient at once.
int PeakInFlight(const std::vector<UnitOp>& order) {
  int alive = 0, peak = 0;
  for (const UnitOp& op : order) {
    alive += op.kind == UnitOp::Kind::kForward ? 1 : op.kind == UnitOp::Kind::kInputGradient ? 0 : -1;
    peak = std::max(peak, alive);
  }
  return peak;
}

TEST_CASE("every micro-batch goes forward once, then backward once or by both gradients, in order") {
  const Schedule schedule =
      GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe, Schedule::kZeroBubbleH1,
               Schedule::kInterleaved1F1B, Schedule::kInterleavedGPipe, Schedule::kZeroBubbleV);
  const int stages = GENERATE(1, 2, 3, 8);
  const int micro_batches = GENERATE(1, 2, 5, 16);
  for (StageId stage = 0; stage < stages; ++stage) {
    CAPTURE(NameOf(schedule), stages, stage, micro_batches);
    std::map<UnitOp::Kind, int> done;
    for (const UnitOp& op : OrderOf(schedule, stage, stages, micro_batches)) {
      CHECK(op.micro_batch == done[op.kind]++);
      CHECK(done[UnitOp::Kind::kBackward] + done[UnitOp::Kind::kInputGradient] <=
            done[UnitOp::Kind::kForward]);
      CHECK(done[UnitOp::Kind::kWeightGradient] <= done[UnitOp::Kind::kInputGradient]);
    }
    CHECK(done[UnitOp::Kind::kForward] == micro_batches);
    const bool splits = schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubbleV;
    CHECK(done[UnitOp::Kind::kBackward] == (splits ? 0 : micro_batches));
    CHECK(done[UnitOp::Kind::kInputGradient] == (splits ? micro_batches : 0));
    CHECK(done[UnitOp::Kind::kWeightGradient] == (splits ? micro_batches : 0));
  }
}

TEST_CASE(
    "1F1B keeps at most stages - stage micro-batches alive, ZB-H1 as many as there are stages, GPipe all") {
  const int stages = GENERATE(1, 2, 5);
  const int micro_batches = GENERATE(1, 3, 12);
  for (StageId stage = 0; stage < stages; ++stage) {
    CAPTURE(stages, stage, micro_batches);
    const auto alternating = OrderOf(Schedule::kOneForwardOneBackward, stage, stages, micro_batches);
    CHECK(PeakInFlight(alternating) == std::min(stages - stage, micro_batches));
    CHECK(PeakInFlight(OrderOf(Schedule::kGPipe, stage, stages, micro_batches)) == micro_batches);
    CHECK(PeakInFlight(OrderOf(Schedule::kZeroBubbleH1, stage, stages, micro_batches)) <=
          std::min(stages, micro_batches));
  }
}

TEST_CASE("units that are passed once take in what they need just before each pass, in their stage's order") {
  Plan plan{.schedule =
                GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe, Schedule::kZeroBubbleH1)};
  plan.units = {{{"a/0"}, {{0, 2}}}, {{"b/0"}, {{2, 4}}}, {{"c/0"}, {{4, 6}}}};
  plan.routes = {{{0, 1, 2}, 5, 1}};
  for (int u = 0; u < 3; ++u) {
    CAPTURE(u);
    std::vector<UnitOp> passes;
    const std::vector<UnitOp> order = OrderOfUnit(plan, u, VisitsOf(plan, u));
    for (size_t i = 0; i < order.size(); ++i) {
      using Kind = UnitOp::Kind;
      const UnitOp& op = order[i];
      CHECK(op.visit == 0);
      if (op.kind == Kind::kReceiveActivation || op.kind == Kind::kReceiveGradient) continue;
      passes.push_back(op);
      const bool forward = op.kind == Kind::kForward;
      const bool receives = forward ? u > 0 : u < 2 && op.kind != Kind::kWeightGradient;
      if (!receives) continue;
      REQUIRE(i > 0);
      CHECK(order[i - 1] ==
            UnitOp{forward ? Kind::kReceiveActivation : Kind::kReceiveGradient, 0, op.micro_batch});
    }
    CHECK(passes == OrderOf(plan.schedule, u, 3, 5));
  }
}

TEST_CASE(
    "what a unit takes in, in an order of its own, does not depend on routes that do not meet its own") {
  // Two routes that share their last unit, and two of their own before and behind them.
  Plan plan{.schedule = Schedule::kOneForwardOneBackward};
  for (const int first : {0, 0, 0, 3, 0, 3, 3}) {
    const std::string name(1, static_cast<char>('a' + plan.units.size()));
    plan.units.push_back({{name + "/0"}, {{first, first + 3}}});
  }
  plan.routes = {{{0, 5}, 4, 1}, {{1, 3}, 3, 2}, {{2, 3}, 6, 1}, {{4, 6}, 2, 4}};
  const auto listed = [](Plan of) {
    std::vector<UnitOrder> orders = ScheduleOrders(Schedule::kZeroBubbleH1, NominalPipeline(of));
    of.schedule = Schedule::kListed;
    for (size_t u = 0; u < of.units.size(); ++u) of.units[u].order = std::move(orders[u]);
    return of;
  };
  plan = listed(plan);
  Plan part{.schedule = Schedule::kListed};
  part.units = {plan.units[1], plan.units[2], plan.units[3]};
  part.routes = {{{0, 2}, 3, 2}, {{1, 2}, 6, 1}};
  for (int u = 0; u < 3; ++u) {
    CAPTURE(u);
    const UnitOrder own = OrderOfUnit(part, u, VisitsOf(part, u));
    CHECK(own == OrderOfUnit(plan, u + 1, VisitsOf(plan, u + 1)));
    CHECK(std::count_if(own.begin(), own.end(), [](const UnitOp& op) {
            return op.kind == UnitOp::Kind::kReceiveActivation;
          }) == (u == 2 ? 9 : 0));
  }
}

// Of a backward, the part that a schedule may put off.
constexpr double kWeightsShare = 0.5;

// When each stage of a pipeline gets its first micro-batch, and when its last gradient is there. Messages
// travel side by side.
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
      const std::vector<UnitOp> order = OrderOf(schedule, s, stages, micro_batches);
      while (next[s] < order.size()) {
        const UnitOp& op = order[next[s]];
        const bool forwards = op.kind == UnitOp::Kind::kForward;
        if (op.kind == UnitOp::Kind::kWeightGradient) {
          now[s] += work[s].backward_seconds * kWeightsShare;
          ++next[s];
          moved = true;
          continue;
        }
        const double backward_seconds =
            work[s].backward_seconds * (op.kind == UnitOp::Kind::kInputGradient ? 1 - kWeightsShare : 1);
        const int from = forwards ? s - 1 : s + 1;
        const bool waits = forwards ? s > 0 : s + 1 < stages;
        const double come = !waits ? 0 : (forwards ? forward : backward)[from][op.micro_batch];
        if (come == kNever) break;
        const double message = !waits ? 0 : work[forwards ? s - 1 : s].message_seconds;
        now[s] = std::max(now[s], come + message) + (forwards ? work[s].forward_seconds : backward_seconds);
        (forwards ? forward : backward)[s][op.micro_batch] = now[s];
        ++next[s];
        moved = true;
      }
    }
  }
  std::vector<StageTimes> times(stages);
  for (int s = 0; s < stages; ++s) {
    REQUIRE(backward[s].back() != kNever);
    times[s] = {forward[s].front() - work[s].forward_seconds, now[s]};
  }
  return times;
}

TEST_CASE(
    "no stage is done earlier than its schedule's bound, which is exact for a single one and for equal ones "
    "under GPipe",
    "[property]") {
  const Schedule schedule =
      GENERATE(Schedule::kOneForwardOneBackward, Schedule::kGPipe, Schedule::kZeroBubbleH1,
               Schedule::kInterleaved1F1B, Schedule::kInterleavedGPipe, Schedule::kZeroBubbleV);
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

TEST_CASE("putting off the weights' gradients leaves a third of 1F1B's bubble") {
  // Qi et al. 2023, figure 3 and table 1: (p - 1)(F + B - W) instead of (p - 1)(F + B + W).
  const int stages = GENERATE(2, 4, 8), micro_batches = 3 * stages;
  const std::vector<StageWork> work(
      stages, {.micro_batches = micro_batches, .forward_seconds = 1, .backward_seconds = 2});
  const auto bubble = [&](Schedule schedule) {
    double end = 0;
    for (const StageTimes& times : Simulate(schedule, work)) end = std::max(end, times.end);
    return end - 3 * micro_batches;
  };
  CHECK(bubble(Schedule::kOneForwardOneBackward) == Approx(3 * (stages - 1)));
  CHECK(bubble(Schedule::kZeroBubbleH1) == Approx(stages - 1));
}

}  // namespace
}  // namespace medley
