#include "runtime/ir/program/group_exchanges.h"

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/row_counts.h"

namespace medley {
namespace {

// How many exchanges of [rows, hidden] a pass has: sums, one of each part or one of all, of which each rank takes its rows in
// sequence parallelism, and what is gathered there alone.
struct RowExchanges {
  int sums_of_parts = 0, sums = 0, gathers = 0;
};

RowExchanges RowExchangesOf(const StreamPoints& points, const GroupPass& pass) {
  const int branches = points.branches, head = points.has_head ? 1 : 0,
            embedding = points.has_embedding ? 1 : 0;
  switch (pass.kind) {
    case InstructionKind::kForward:
      return {branches + embedding, 0, branches + (pass.purpose == Purpose::kEvaluate ? head : 0)};
    case InstructionKind::kRecompute:
      // What is behind a layer's last branch was kept.
      return {branches / kBranches * (kBranches - 1), 0, branches};
    case InstructionKind::kInputGradient:
      return {branches, head, branches + head};
    case InstructionKind::kWeightGradient:
      return {0, 0, 2 * branches + embedding};
    case InstructionKind::kBackward:
      return {branches, head, 2 * branches + head + embedding};
    default:
      return {};
  }
}

// Whether the head makes its logits in it.
bool HeadWorks(const GroupPass& pass) {
  if (pass.kind == InstructionKind::kForward) return pass.purpose == Purpose::kEvaluate;
  return pass.kind == InstructionKind::kBackward || pass.kind == InstructionKind::kInputGradient;
}

}  // namespace

std::vector<GroupExchange> GroupExchanges(const ModelConfig& config, const GroupPass& pass) {
  if (pass.degree < 2) return {};
  const StreamPoints points = StreamPointsOf(config, pass.blocks);
  std::vector<GroupExchange> exchanges;
  const auto add = [&](ExchangeKind kind, int64_t elements, Dtype dtype, int count) {
    if (count == 0) return;
    for (GroupExchange& like : exchanges) {
      if (like.kind != kind || like.elements != elements || like.dtype != dtype) continue;
      like.count += count;
      return;
    }
    exchanges.push_back({kind, elements, dtype, count});
  };
  if (pass.kind == InstructionKind::kJoinGradients) {
    const int norms = points.branches + (points.has_head ? 1 : 0);
    if (norms > 0) add(ExchangeKind::kSum, NormElements(config, pass.blocks) / norms, Dtype::kF32, norms);
    return exchanges;
  }
  const RowExchanges rows = RowExchangesOf(points, pass);
  const ExchangeKind sum = pass.sequence_parallel ? ExchangeKind::kScatter : ExchangeKind::kSum;
  const int64_t elements = pass.rows * config.hidden;
  for (const RowRange& part : PartRows(pass.sequences, pass.rows / pass.sequences, pass.parts))
    add(sum, part.size() * config.hidden, pass.activations, rows.sums_of_parts);
  add(sum, elements, pass.activations, rows.sums);
  if (pass.sequence_parallel) add(ExchangeKind::kGather, elements, pass.activations, rows.gathers);
  if (points.has_head && HeadWorks(pass))
    add(ExchangeKind::kSum, (pass.degree + 1) * pass.rows, Dtype::kF32, 1);
  return exchanges;
}

}  // namespace medley
