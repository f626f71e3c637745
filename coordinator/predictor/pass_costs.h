#pragma once
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/program/group_exchanges.h"
#include "runtime/ir/program/program.h"

// What the passes of a unit take, each by itself: what a rank computes, and what the ranks exchange.
namespace medley {

// Of times that were measured of whole micro-batches, parallel to problem.micro_batch_sizes, those of a micro-batch of
// `sequences`, which is such a size, that is passed in `parts` (Unit::exchange_parts). InvalidArgument: a part is of none of
// these sizes ("exchange_parts: ...").
absl::StatusOr<BlockTimes> TimesInParts(const PlanningProblem& problem, const std::vector<BlockTimes>& times,
                                        int sequences, int parts);

// What one rank computes of a micro-batch in the passes of a chunk.
class ChunkCost {
 public:
  // `times`: of its share of the width. `recompute_seconds`: of a layer.
  ChunkCost(const ModelConfig& model, BlockRange chunk, const BlockTimes& times, double recompute_seconds);

  // In a pass of `blocks` of the chunk.
  double Seconds(InstructionKind kind, BlockRange blocks) const;
  // In those of one block, each kind that there is by itself.
  double ForwardSeconds(BlockId block) const;
  double InputGradientSeconds(BlockId block) const;
  double WeightGradientSeconds(BlockId block) const;

 private:
  struct GradientSeconds {
    double both = 0, of_weights = 0, split = 0;
  };
  int At(BlockId block) const { return block - first_block_; }

  BlockId first_block_;
  std::vector<double> forwards_before_ = {0};             // of the chunk's blocks before each, and of all
  std::vector<GradientSeconds> gradients_before_ = {{}};  // likewise
  double recompute_seconds_ = 0;
};

// The ranks of a unit in the passes of one chunk.
struct UnitCost {
  int group = 0;  // Reductions' number of their devices
  // Whether the cores on which a rank computes are those that exchange: what is exchanged in parts is not hidden then.
  bool exchanges_on_cores = false;
  absl::InlinedVector<const ChunkCost*, 8> ranks;  // not owned
};

// Of the ranks of `unit`, with micro-batches of `sequences`; of no kind or blocks yet.
GroupPass PassOfUnit(const PlanningProblem& problem, const Unit& unit, int sequences);

// Of a pass within which the ranks of a unit exchange, what that adds to what the slowest of them computes: each exchange
// after the other, or of a micro-batch in parts what is left beside computing. `exchanges`: GroupExchanges of `pass`.
double ExchangeSeconds(const PlanningProblem& problem, Reductions& reductions, const UnitCost& unit,
                       const GroupPass& pass, absl::Span<const GroupExchange> exchanges);

}  // namespace medley
