#include "runtime/ir/program/kept_memory.h"

#include <utility>

namespace medley {
namespace {

double BetweenGradients(const PassGraph::Stage& stage) { return std::max(0.0, stage.deferred - stage.kept); }

}  // namespace

MemoryChange MemoryChangeOf(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction) {
  // What the pass finds, what it leaves.
  double before = 0, after = 0;
  switch (kind) {
    case PassKind::kForward:
      after = stage.kept;
      break;
    case PassKind::kInputGradient:
      before = stage.kept;
      after = joined ? 0 : stage.deferred;
      break;
    case PassKind::kWeightGradient:
      before = stage.deferred;
      break;
  }
  if (direction == Direction::kBackwards) std::swap(before, after);
  const double more = after - before;
  return more > 0 ? MemoryChange{more, 0} : MemoryChange{0, more};
}

KeptBuffers::KeptBuffers(const PassGraph& graph, UnitId unit) {
  int chunks = 0;
  for (const int s : graph.StagesOf(unit)) chunks = std::max(chunks, graph.stages()[s].chunk + 1);
  chunks_.resize(chunks);
}

void KeptBuffers::HaveOneOfEach(const PassGraph& graph, UnitId unit, const std::vector<char>& splits) {
  for (const int s : graph.StagesOf(unit)) {
    const PassGraph::Stage& stage = graph.stages()[s];
    const Changes least = {stage.kept, splits[s] != 0 ? BetweenGradients(stage) : 0};
    for (size_t k = 0; k < least.size(); ++k) {
      Pool& pool = chunks_[stage.chunk][k];
      total_ += std::max(0.0, least[k] - pool.all);
      pool.all = std::max(pool.all, least[k]);
    }
  }
}

KeptBuffers::Changes KeptBuffers::ChangesOf(const PassGraph::Stage& stage, PassKind kind, bool joined,
                                            Direction direction) {
  Changes changes = {0, 0};
  switch (kind) {
    case PassKind::kForward:
      changes[0] = stage.kept;
      break;
    case PassKind::kInputGradient:
      (joined ? changes[0] : changes[1]) = joined ? -stage.kept : BetweenGradients(stage);
      break;
    case PassKind::kWeightGradient:
      changes = {-stage.kept, -BetweenGradients(stage)};
      break;
  }
  if (direction == Direction::kBackwards) changes = {-changes[0], -changes[1]};
  return changes;
}

double KeptBuffers::MoreFor(const PassGraph::Stage& stage, PassKind kind, bool joined,
                            Direction direction) const {
  const Changes changes = ChangesOf(stage, kind, joined, direction);
  double more = 0;
  for (size_t k = 0; k < changes.size(); ++k) {
    const Pool& pool = chunks_[stage.chunk][k];
    if (changes[k] > 0) more += std::max(0.0, pool.used + changes[k] - pool.all);
  }
  return more;
}

void KeptBuffers::Run(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction) {
  const Changes changes = ChangesOf(stage, kind, joined, direction);
  for (size_t k = 0; k < changes.size(); ++k) {
    Pool& pool = chunks_[stage.chunk][k];
    pool.used += changes[k];
    total_ += std::max(0.0, pool.used - pool.all);
    pool.all = std::max(pool.all, pool.used);
  }
}

}  // namespace medley
