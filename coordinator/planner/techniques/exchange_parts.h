#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/pass_costs.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/plan/plan.h"

// Micro-batches that units of several devices cut into parts, so that what they exchange of one travels beside what they
// compute of another (Unit::exchange_parts).
namespace medley {

// The passes of a unit of several devices that has one chunk, of micro-batches of one size, in unit.exchange_parts.
class UnitPasses {
 public:
  // A rank whose share has not been measured takes no time to compute. Keeps references to `problem` and `reductions`, of
  // this problem. InvalidArgument: a part's size has not been measured.
  static absl::StatusOr<UnitPasses> Make(const PlanningProblem& problem, Reductions& reductions,
                                         const Unit& unit, int sequences);

  // In a pass of `blocks`, which is what the slowest rank computes, and what exchanging adds to it.
  double ComputingSeconds(InstructionKind kind, BlockRange blocks) const;
  double ExchangeSeconds(InstructionKind kind, BlockRange blocks) const;
  // Of all passes of a micro-batch, with what is made again.
  double MicroBatchSeconds() const;

 private:
  UnitPasses(const PlanningProblem& problem, Reductions& reductions, const Unit& unit, int sequences);

  const PlanningProblem* problem_;
  Reductions* reductions_;
  BlockRange chunk_;
  LayersMadeAgain made_again_;
  GroupPass pass_;  // of no kind or blocks
  int group_;
  bool exchanges_on_cores_ = false;
  std::vector<ChunkCost> ranks_;
};

// Of a micro-batch's time, what more parts must gain at least to be taken: predictions err by more.
constexpr double kLeastGainOfParts = 0.005;
// No more parts that cut sequences: what passes of so few rows take is told from larger ones.
constexpr int kMostPartsOfRows = 4;

// In how many parts the micro-batches of `sequences` of a unit, of several devices and with one chunk, are predicted to take
// least; 1 where it gains nothing, or nobody measured what parts take, or of those that cut sequences what two sizes take. Pure.
int BestParts(const PlanningProblem& problem, Reductions& reductions, Unit unit, int sequences);

}  // namespace medley
