#include "runtime/ir/program/interleaved_order.h"

#include <algorithm>

namespace medley {
namespace {

// How often the only route goes through the units, each time in the same turn; 0: it does not.
int TurnsOf(const TimedPipeline& pipeline) {
  if (pipeline.routes.size() != 1) return 0;
  const std::vector<TimedStage>& stages = pipeline.routes[0].stages;
  const int units = pipeline.units, count = static_cast<int>(stages.size());
  if (count % units != 0 || pipeline.routes[0].micro_batches % units != 0) return 0;
  std::vector<bool> passed(units, false);
  for (int s = 0; s < count; ++s) {
    if (s < units && passed[stages[s].unit]) return 0;
    passed[stages[s].unit] = true;
    if (stages[s].unit != stages[s % units].unit) return 0;
  }
  return count / units;
}

}  // namespace

std::vector<UnitOrder> PublishedInterleavedOrders(const TimedPipeline& pipeline) {
  const int units = pipeline.units, ranges = TurnsOf(pipeline);
  if (ranges == 0) return {};
  const int passes = pipeline.routes[0].micro_batches * ranges;
  // The k-th forward or backward of any unit.
  const auto op = [&](UnitOp::Kind kind, int k) {
    const int range = k % (units * ranges) / units;
    const int visit = kind == UnitOp::Kind::kForward ? range : ranges - 1 - range;
    return UnitOp{kind, visit, k / (units * ranges) * units + k % units};
  };
  std::vector<UnitOrder> orders(units);
  for (int place = 0; place < units; ++place) {
    const int ahead = std::min(passes, 2 * (units - place - 1) + (ranges - 1) * units);
    orders[pipeline.routes[0].stages[place].unit] = Alternating(ahead, passes, op);
  }
  return orders;
}

}  // namespace medley
