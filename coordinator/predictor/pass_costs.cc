#include "coordinator/predictor/pass_costs.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/parts_timeline.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/row_counts.h"

namespace medley {
namespace {

// Of a pass in parts on a rank, computing and exchanging, as ChunkPasses goes through it.
double SecondsInParts(const PlanningProblem& problem, Reductions& reductions, const UnitCost& unit,
                      const GroupPass& pass, const ChunkCost& rank) {
  const ModelConfig& model = problem.shape.model;
  struct PartCost {
    double share, sum_seconds;
  };
  std::vector<PartCost> parts;
  for (const RowRange& part : PartRows(pass.sequences, problem.shape.sequence, pass.parts)) {
    const double share = static_cast<double>(part.size()) / static_cast<double>(pass.rows);
    parts.push_back(
        {share, reductions.ExchangeSeconds(unit.group, part.size() * model.hidden, pass.activations)});
  }
  PartsTimeline timeline(/*hides=*/!unit.exchanges_on_cores);
  const bool onwards = pass.kind == InstructionKind::kForward || pass.kind == InstructionKind::kRecompute;
  const bool cuts_sequences = PartsCutSequences(pass.sequences, pass.parts);
  const auto in_parts = [&](int branch, double seconds) {
    double behind_seconds = seconds;
    if (cuts_sequences && FamilyOf(model).branches[branch].core == CoreKind::kAttention) {
      StepShares steps = onwards ? ForwardStepShares(model, branch, problem.shape.sequence)
                                 : InputGradientStepShares(model, branch, problem.shape.sequence);
      if (pass.kind == InstructionKind::kRecompute && pass.recompute == Recompute::kAllButAttention) {
        const double maps = steps.before + steps.behind;
        steps = {.before = steps.before / maps, .core = 0, .behind = steps.behind / maps};
      }
      // All parts but the last have been summed since the last branch.
      timeline.Compute((1 - parts.back().share) * steps.before * seconds);
      timeline.Await();
      timeline.Compute((parts.back().share * steps.before + steps.core) * seconds);
      behind_seconds = steps.behind * seconds;
    }
    for (const PartCost& part : parts) {
      timeline.Compute(part.share * behind_seconds);
      timeline.BeginSum(part.sum_seconds);
    }
  };
  const auto branch_share = [&](int branch) { return BranchShare(model, branch, problem.shape.sequence); };
  if (pass.kind == InstructionKind::kRecompute) {
    const double seconds = rank.Seconds(pass.kind, pass.blocks);
    in_parts(0, branch_share(0) * seconds);
    timeline.Compute(branch_share(1) * seconds);
    return timeline.Seconds();
  }
  for (int i = 0; i < pass.blocks.size(); ++i) {
    const BlockId block = onwards ? pass.blocks.first + i : pass.blocks.end - 1 - i;
    const double forward = rank.ForwardSeconds(block), of_input = rank.InputGradientSeconds(block),
                 put_off = pass.kind == InstructionKind::kBackward ? rank.WeightGradientSeconds(block) : 0;
    if (model.is_layer(block)) {
      for (int b = 0; b < kBranches; ++b) {
        const int branch = onwards ? b : kBranches - 1 - b;
        const double share = branch_share(branch);
        in_parts(branch, share * (onwards ? forward : of_input));
        if (!onwards) timeline.Compute(share * put_off);
      }
      continue;
    }
    timeline.Compute(onwards ? forward : of_input + put_off);
    if (block == model.embedding_block() && onwards) {
      for (const PartCost& part : parts) timeline.BeginSum(part.sum_seconds);
    }
    if (block != model.head_block()) continue;
    GroupPass of_head = pass;
    of_head.blocks = {block, block + 1};
    for (const GroupExchange& exchange : GroupExchanges(model, of_head)) {
      timeline.BeginSum(exchange.count * reductions.ExchangeSeconds(unit.group, exchange));
      timeline.Await();
    }
  }
  return timeline.Seconds();
}

}  // namespace

// What a pass of no sequences would take, by those of the two smallest sizes; 0 where they do not tell.
double FixedSeconds(const std::vector<int>& sizes, const std::vector<BlockTimes>& times,
                    const std::function<double(const PassTimes&)>& seconds_of) {
  if (sizes.size() < 2) return 0;
  const double small = seconds_of(times[0].layer), large = seconds_of(times[1].layer);
  return std::max(0.0, small - sizes[0] * (large - small) / (sizes[1] - sizes[0]));
}

double InputGradientSeconds(const PassTimes& layer) {
  return layer.backward_seconds + layer.split_seconds - layer.weight_gradient_seconds;
}

// Embedding and head compute all rows at once, and so do the gradients of layers' weights.
absl::StatusOr<BlockTimes> TimesInParts(const PlanningProblem& problem, const std::vector<BlockTimes>& times,
                                        int sequences, int parts) {
  const std::vector<int>& sizes = problem.micro_batch_sizes;
  const auto index = [&](int64_t size) {
    return std::find(sizes.begin(), sizes.end(), size) - sizes.begin();
  };
  BlockTimes result = times[index(sequences)];
  if (parts == 1) return result;
  PassTimes& layer = result.layer;
  layer.forward_seconds = layer.recompute_seconds = layer.recompute_but_attention_seconds = 0;
  layer.split_seconds = 0;  // backwards of parts make their gradients apart in any case
  layer.backward_seconds = layer.weight_gradient_seconds;
  // What rows of a sequence take nobody has measured: as long as they do in the whole, and what each pass takes however few they are.
  const bool cuts_sequences = PartsCutSequences(sequences, parts);
  if (cuts_sequences) {
    const auto add = [&](double& sum, const std::function<double(const PassTimes&)>& seconds_of) {
      sum += (parts - 1) * FixedSeconds(sizes, times, seconds_of);
    };
    add(layer.forward_seconds, [](const PassTimes& of) { return of.forward_seconds; });
    add(layer.backward_seconds, InputGradientSeconds);
    add(layer.recompute_seconds, [](const PassTimes& of) { return of.recompute_seconds; });
    add(layer.recompute_but_attention_seconds,
        [](const PassTimes& of) { return of.recompute_but_attention_seconds; });
  }
  for (const RowRange& part : PartsOf(sequences, cuts_sequences ? 1 : parts)) {
    const size_t size = index(part.size());
    if (size == sizes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("exchange_parts: ", parts, " cut a micro-batch of ",
                                                     sequences, " sequences into parts of ", part.size(),
                                                     ", which is not among the problem's micro_batch_sizes"));
    }
    const PassTimes& of_part = times[size].layer;
    layer.forward_seconds += of_part.forward_seconds;
    layer.backward_seconds += InputGradientSeconds(of_part);
    layer.recompute_seconds += of_part.recompute_seconds;
    layer.recompute_but_attention_seconds += of_part.recompute_but_attention_seconds;
  }
  return result;
}

ChunkCost::ChunkCost(const ModelConfig& model, BlockRange chunk, const BlockTimes& times,
                     double recompute_seconds)
    : first_block_(chunk.first), recompute_seconds_(recompute_seconds) {
  for (BlockId block = chunk.first; block < chunk.end; ++block) {
    const PassTimes& pass = TimesOf(times, model, block);
    forwards_before_.push_back(forwards_before_.back() + pass.forward_seconds);
    const GradientSeconds& before = gradients_before_.back();
    gradients_before_.push_back({before.both + pass.backward_seconds,
                                 before.of_weights + pass.weight_gradient_seconds,
                                 before.split + pass.split_seconds});
  }
}

double ChunkCost::Seconds(InstructionKind kind, BlockRange blocks) const {
  const int first = At(blocks.first), end = At(blocks.end);
  const double of_weights = gradients_before_[end].of_weights - gradients_before_[first].of_weights,
               both = gradients_before_[end].both - gradients_before_[first].both,
               split = gradients_before_[end].split - gradients_before_[first].split;
  switch (kind) {
    case InstructionKind::kForward:
      return forwards_before_[end] - forwards_before_[first];
    case InstructionKind::kBackward:
      return both;
    case InstructionKind::kInputGradient:
      return both + split - of_weights;
    case InstructionKind::kWeightGradient:
      return of_weights;
    case InstructionKind::kRecompute:
      return recompute_seconds_;
    default:  // gradients are joined
      return 0;
  }
}

double ChunkCost::ForwardSeconds(BlockId block) const {
  return Seconds(InstructionKind::kForward, {block, block + 1});
}

double ChunkCost::InputGradientSeconds(BlockId block) const {
  return Seconds(InstructionKind::kInputGradient, {block, block + 1});
}

double ChunkCost::WeightGradientSeconds(BlockId block) const {
  return Seconds(InstructionKind::kWeightGradient, {block, block + 1});
}

GroupPass PassOfUnit(const PlanningProblem& problem, const Unit& unit, int sequences) {
  return {.rows = int64_t{sequences} * problem.shape.sequence,
          .degree = static_cast<int>(unit.devices.size()),
          .activations = unit.activations,
          .sequence_parallel = unit.sequence_parallel,
          .sequences = sequences,
          .parts = unit.exchange_parts,
          .recompute = unit.recompute};
}

double ExchangeSeconds(const PlanningProblem& problem, Reductions& reductions, const UnitCost& unit,
                       const GroupPass& pass, absl::Span<const GroupExchange> exchanges) {
  if (pass.parts == 1) {
    double seconds = 0;
    for (const GroupExchange& exchange : exchanges)
      seconds += exchange.count * reductions.ExchangeSeconds(unit.group, exchange);
    return seconds;
  }
  const auto seconds_of = [&](const ChunkCost* rank) { return rank->Seconds(pass.kind, pass.blocks); };
  const ChunkCost* const slowest = *std::max_element(
      unit.ranks.begin(), unit.ranks.end(),
      [&](const ChunkCost* a, const ChunkCost* b) { return seconds_of(a) < seconds_of(b); });
  return SecondsInParts(problem, reductions, unit, pass, *slowest) - seconds_of(slowest);
}

}  // namespace medley
