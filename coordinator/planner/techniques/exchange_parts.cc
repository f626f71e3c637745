#include "coordinator/planner/techniques/exchange_parts.h"

#include <algorithm>
#include <optional>

#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"

namespace medley {

UnitPasses::UnitPasses(const PlanningProblem& problem, Reductions& reductions, const Unit& unit,
                       int sequences)
    : problem_(&problem),
      reductions_(&reductions),
      chunk_(unit.chunks.front()),
      made_again_(
          LastLayersMadeAgain(problem.shape.model, unit.chunks, unit.recompute, unit.recomputed_layers)),
      pass_(PassOfUnit(problem, unit, sequences)) {}

absl::StatusOr<UnitPasses> UnitPasses::Make(const PlanningProblem& problem, Reductions& reductions,
                                            const Unit& unit, int sequences) {
  const ModelConfig& model = problem.shape.model;
  const std::vector<ModelShare> shares = SharesOf(unit, model);
  UnitPasses passes(problem, reductions, unit, sequences);
  std::vector<int> devices;
  for (size_t member = 0; member < unit.devices.size(); ++member) {
    const DeviceCost& device = *FindDevice(problem, unit.devices[member]);
    devices.push_back(static_cast<int>(&device - problem.devices.data()));
    passes.exchanges_on_cores_ |= ComputesOnCores(device);
    BlockTimes times;
    if (const std::optional<RankCosts> costs = CostsOf(device, model, shares[member]); costs) {
      ASSIGN_OR_RETURN(times, TimesInParts(problem, costs->times, sequences, unit.exchange_parts));
    }
    const double recompute_seconds = RecomputeSeconds(LocalModel(model, shares[member]), sequences,
                                                      problem.shape.sequence, times.layer, unit.recompute);
    passes.ranks_.emplace_back(model, passes.chunk_, times, recompute_seconds);
  }
  passes.group_ = reductions.GroupOf(devices);
  return passes;
}

double UnitPasses::ComputingSeconds(InstructionKind kind, BlockRange blocks) const {
  double slowest = 0;
  for (const ChunkCost& rank : ranks_) slowest = std::max(slowest, rank.Seconds(kind, blocks));
  return slowest;
}

double UnitPasses::ExchangeSeconds(InstructionKind kind, BlockRange blocks) const {
  UnitCost cost{.group = group_, .exchanges_on_cores = exchanges_on_cores_};
  for (const ChunkCost& rank : ranks_) cost.ranks.push_back(&rank);
  GroupPass pass = pass_;
  pass.kind = kind;
  pass.blocks = blocks;
  return medley::ExchangeSeconds(*problem_, *reductions_, cost, pass,
                                 GroupExchanges(problem_->shape.model, pass));
}

double UnitPasses::MicroBatchSeconds() const {
  const auto seconds = [&](InstructionKind kind, BlockRange blocks) {
    return ComputingSeconds(kind, blocks) + ExchangeSeconds(kind, blocks);
  };
  double all = seconds(InstructionKind::kForward, chunk_) + seconds(InstructionKind::kBackward, chunk_);
  for (BlockId block = chunk_.first; block < chunk_.end; ++block) {
    if (made_again_.Of(problem_->shape.model, block) != Recompute::kNone)
      all += seconds(InstructionKind::kRecompute, {block, block + 1});
  }
  return all;
}

int BestParts(const PlanningProblem& problem, Reductions& reductions, Unit unit, int sequences) {
  int best = 1;
  double least_seconds = 0;
  const int64_t most =
      std::min<int64_t>(std::max(sequences, kMostPartsOfRows), sequences * problem.shape.sequence);
  for (int parts = 1; parts <= most; ++parts) {
    if (PartsCutSequences(sequences, parts) && problem.micro_batch_sizes.size() < 2) break;
    unit.exchange_parts = parts;
    const absl::StatusOr<UnitPasses> passes = UnitPasses::Make(problem, reductions, unit, sequences);
    if (!passes.ok()) continue;
    const double seconds = passes->MicroBatchSeconds();
    if (parts > 1 && seconds >= least_seconds * (1 - kLeastGainOfParts)) continue;
    best = parts;
    least_seconds = seconds;
  }
  return best;
}

}  // namespace medley
