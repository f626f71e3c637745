#include "runtime/program/schedule.h"

#include <algorithm>

namespace medley {
namespace {

// `warmup` forwards, then forward and backward in turn, then what is left of the backwards.
std::vector<StageOp> WarmUpThenAlternate(int warmup, int micro_batches) {
  using Kind = StageOp::Kind;
  std::vector<StageOp> order;
  order.reserve(2 * micro_batches);
  for (int m = 0; m < warmup; ++m) order.push_back({Kind::kForward, m});
  for (int m = warmup; m < micro_batches; ++m) {
    order.push_back({Kind::kForward, m});
    order.push_back({Kind::kBackward, m - warmup});
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) order.push_back({Kind::kBackward, m});
  return order;
}

}  // namespace

std::vector<StageOp> OrderOf(Schedule schedule, int stage, int stages, int micro_batches) {
  switch (schedule) {
    case Schedule::kOneForwardOneBackward: return WarmUpThenAlternate(std::min(stages - stage - 1, micro_batches), micro_batches);
    case Schedule::kGPipe: return WarmUpThenAlternate(micro_batches, micro_batches);
  }
  return {};
}

double LeastPassesSeconds(Schedule schedule, const StageWork& stage) {
  const double m = stage.micro_batches, both = stage.forward_seconds + stage.backward_seconds;
  // It computes all the time, or its messages follow each other without a pause.
  const double least = std::max(m * both, stage.round_trip_seconds + (m - 1) * stage.message_seconds);
  switch (schedule) {
    case Schedule::kOneForwardOneBackward: {
      // Only `alive` forwards come before the first backward, and a forward waits for the backward `alive` earlier.
      const int alive = std::min(stage.from_end, stage.micro_batches);
      return std::max({least,
                       stage.round_trip_seconds + (m - alive) * stage.forward_seconds + (m - 1) * stage.backward_seconds,
                       stage.round_trip_seconds * (1 + (stage.micro_batches - 1) / alive)});
    }
    case Schedule::kGPipe:
      // All forwards, the last one's round trip, all backwards.
      return std::max(least, stage.round_trip_seconds + (m - 1) * both);
  }
  return least;
}

}  // namespace medley
