#include "coordinator/predictor/rank_costing.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Of what is read and written for a parameter, in elements: it is copied, m and v are copied, and all three are updated;
// an update updates them and zeroes the gradient.
constexpr double kAdvanceOverUpdate = (2.0 + 4 + 7) / (7 + 1);

// Of parameters, those for whose norm a rank answers and those that it updates.
struct AnsweredParameters {
  int64_t counted = 0, updated = 0;
};

// Of `held` parameters of the program's rank; where slices of layers on the host alone are told apart, `held` are those. The first
// holder answers for a shared slice, and all update it; where it has owners, these do both.
AnsweredParameters AnsweredBy(const StepProgram& program, int64_t held, bool on_host_alone) {
  AnsweredParameters answered{held, held};
  for (const GradientSlice& slice : program.slices) {
    if (on_host_alone && !slice.in_host_memory) continue;
    const int64_t others = slice.elements - OwnedRange(slice, program.rank).size();
    answered.updated -= others;
    answered.counted -= !slice.shares.empty()                   ? others
                        : slice.holders.front() == program.rank ? 0
                                                                : slice.elements;
  }
  return answered;
}

// Sets the cost of a layer that has windows, the mean of all; what the rank answers for of those on the host.
AnsweredParameters CostLayersOnHost(const ModelConfig& local, const StepProgram& program,
                                    const RankCosts& costs, RankCost& result) {
  const int64_t of_layer = SegmentElements(local, SegmentOfBlock(BlockOfLayer(0)));
  int layers = 0, norms = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.blocks.size() == 0) continue;
    layers += instruction.kind == InstructionKind::kUpdateParameters;
    norms += instruction.kind == InstructionKind::kNormGradients;
  }
  const AnsweredParameters answered = AnsweredBy(program, layers * of_layer, /*on_host_alone=*/true);
  const auto of_each = [](int64_t elements, int instructions, double seconds_per_parameter) {
    return instructions > 0 ? static_cast<double>(elements) * seconds_per_parameter / instructions : 0;
  };
  result.layer_norm_seconds = of_each(answered.counted, norms, costs.norm_seconds_per_parameter);
  result.layer_update_seconds = of_each(answered.updated, layers, costs.update_seconds_per_parameter);
  // It writes what a norm reads.
  result.layer_zero_seconds = static_cast<double>(of_layer) * costs.norm_seconds_per_parameter;
  return answered;
}

// Whether what the unit copies from and to the memory of its host can be told.
absl::Status CheckCopies(UnitId number, const Unit& unit, const DeviceCost& device) {
  if (device.fetch_bytes_per_second > 0 && device.store_bytes_per_second > 0) return absl::OkStatus();
  if (!unit.lives_on_host() && unit.activations_home != ActivationsHome::kHost) return absl::OkStatus();
  const std::string field =
      unit.lives_on_host() ? absl::StrCat("window_layers: ", unit.window_layers) : "activations_home: host";
  return absl::InvalidArgumentError(
      absl::StrCat("units[", number.value(), "].", field, ", but how fast ", device.name,
                   " copies from and to host memory has not been measured; measure it again"));
}

}  // namespace

double RankCost::AdvanceSeconds() const { return kAdvanceOverUpdate * update_seconds; }

RankCosting::RankCosting(const PlanningProblem& problem) : problem_(problem) {
  parameters_before_.push_back(0);
  for (BlockId block = 0; block < problem.shape.model.blocks(); ++block) {
    parameters_before_.push_back(parameters_before_.back() +
                                 SegmentElements(problem.shape.model, SegmentOfBlock(block)));
  }
}

absl::StatusOr<RankCost> RankCosting::Of(const Plan& plan, const StepProgram& program, int device) const {
  const ModelConfig& model = problem_.shape.model;
  const Unit& unit = plan.units[program.unit];
  const std::vector<int>& sizes = problem_.micro_batch_sizes;
  const DeviceCost& measured = problem_.devices[device];
  const ModelShare share = ShareOf(plan, program.rank, model);
  const ModelConfig local = LocalModel(model, share);
  const std::optional<RankCosts> costs = CostsOf(measured, model, share);
  if (!costs) {
    return absl::InvalidArgumentError(
        absl::StrCat("units[", program.unit.value(), "].devices: ", measured.name,
                     unit.devices.size() > 1 ? " has not been measured with its share of the blocks' width"
                                             : " has not been measured with whole blocks"));
  }
  RETURN_IF_ERROR(CheckCopies(program.unit, unit, measured));
  RankCost result{.device = device};
  for (const Visit& visit : program.visits) {
    if (std::find(sizes.begin(), sizes.end(), visit.micro_batch_sequences) == sizes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("routes[", visit.route,
                                                     "].micro_batch_sequences: ", visit.micro_batch_sequences,
                                                     " is not among the problem's micro_batch_sizes"));
    }
    const absl::StatusOr<BlockTimes> times =
        TimesInParts(problem_, costs->times, visit.micro_batch_sequences, unit.exchange_parts);
    if (!times.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("units[", program.unit.value(), "].", times.status().message()));
    }
    const double recompute_seconds = RecomputeSeconds(local, visit.micro_batch_sequences,
                                                      problem_.shape.sequence, times->layer, unit.recompute);
    result.visits.emplace_back(model, unit.chunks[visit.chunk], *times, recompute_seconds);
  }
  const AnsweredParameters all = AnsweredBy(program, ParametersHeld(unit, local), /*on_host_alone=*/false);
  AnsweredParameters on_host;
  if (unit.has_windows()) on_host = CostLayersOnHost(local, program, *costs, result);
  result.norm_seconds =
      static_cast<double>(all.counted - on_host.counted) * costs->norm_seconds_per_parameter;
  result.update_seconds =
      static_cast<double>(all.updated - on_host.updated) * costs->update_seconds_per_parameter;
  return result;
}

int64_t RankCosting::ParametersHeld(const Unit& unit, const ModelConfig& local) const {
  const ModelConfig& model = problem_.shape.model;
  int64_t held = 0;
  if (unit.devices.size() > 1) {
    for (const SegmentId segment : SegmentsOf(model, unit.chunks)) held += SegmentElements(local, segment);
    return held;
  }
  for (const BlockRange& blocks : unit.chunks)
    held += parameters_before_[blocks.end] - parameters_before_[blocks.first];
  if (Holds(unit, model.embedding_block()) || Holds(unit, model.head_block()))
    held += SegmentElements(model, kTiedSegment);
  return held;
}

}  // namespace medley
