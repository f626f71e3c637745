#pragma once
#include <vector>

#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/timed_pipeline.h"

namespace medley {

// Forwards and backwards of so many passes of a unit, each in its turn: `ahead` forwards (`passes` at most), then forward and
// backward in turn, then what is left of the backwards. `op(kind, k)`: the k-th forward or backward.
template <typename Op>
UnitOrder Alternating(int ahead, int passes, const Op& op) {
  UnitOrder order;
  order.reserve(2 * passes);
  for (int k = 0; k < passes + ahead; ++k) {
    if (k < passes) order.push_back(op(UnitOp::Kind::kForward, k));
    if (k >= ahead) order.push_back(op(UnitOp::Kind::kBackward, k - ahead));
  }
  return order;
}

// Interleaved 1F1B as published (Narayanan et al. 2021, section 2.2; Megatron-LM,
// forward_backward_pipelining_with_interleaving): of pipelines with one route that goes through all units in
// the same turn several times, and whose micro-batches the units divide. Groups of as many micro-batches as
// there are units go through the first ranges, then through the second; a unit runs
// 2 (units - place - 1) + (ranges - 1) units forwards ahead (Alternating).
// Empty: the pipeline is none of these.
std::vector<UnitOrder> PublishedInterleavedOrders(const TimedPipeline& pipeline);

}  // namespace medley
