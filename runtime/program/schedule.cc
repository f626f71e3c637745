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
  const int warmup = schedule == Schedule::kGPipe ? micro_batches : stages - stage - 1;
  return WarmUpThenAlternate(std::min(warmup, micro_batches), micro_batches);
}

}  // namespace medley
