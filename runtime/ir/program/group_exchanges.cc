#include "runtime/ir/program/group_exchanges.h"

#include "runtime/ir/model/block_sizes.h"

namespace medley {

std::vector<GroupExchange> GroupExchanges(const ModelConfig& config, const GroupPass& pass) {
  if (pass.degree < 2 || pass.kind == InstructionKind::kWeightGradient) return {};
  const StreamPoints points = StreamPointsOf(config, pass.blocks);
  const bool forward = pass.kind == InstructionKind::kForward;
  const bool head_forward = forward && pass.purpose == Purpose::kEvaluate;
  const bool statistics = points.has_head && (!forward || head_forward);
  const bool ends = forward ? points.has_embedding : points.has_head;
  std::vector<GroupExchange> exchanges;
  if (pass.kind == InstructionKind::kRecompute) {
    // What is behind a layer's last branch was kept.
    const int count = points.branches / kBranches * (kBranches - 1);
    if (count > 0) exchanges.push_back({pass.rows * config.hidden, pass.activations, count});
    return exchanges;
  }
  if (const int count = points.branches + (ends ? 1 : 0); count > 0)
    exchanges.push_back({pass.rows * config.hidden, pass.activations, count});
  if (statistics) exchanges.push_back({(pass.degree + 1) * pass.rows, Dtype::kF32, 1});
  return exchanges;
}

}  // namespace medley
