#include "runtime/program/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace medley
