#include "coordinator/planner/classes/stage_times.h"

#include <algorithm>
#include <utility>

#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/techniques/stage_buffers.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

StageTimes::StageTimes(const PlanningProblem& problem, std::vector<DeviceClass> classes,
                       const SharedWays& ways, double optimizer_share, const TableScope& scope)
    : problem_(problem),
      classes_(std::move(classes)),
      optimizer_share_(optimizer_share),
      scope_(scope),
      kinds_(StageKindsOf(problem, classes_, scope.only_degree)),
      messages_(problem, classes_, kinds_, ways, scope) {
  const ModelConfig& model = problem.shape.model;
  tied_parameters_ = SegmentElements(model, kTiedSegment);
  embedding_parameters_ = SegmentElements(model, SegmentOfBlock(model.embedding_block()));
  layer_parameters_ = SegmentElements(model, SegmentOfBlock(BlockOfLayer(0)));
  head_parameters_ = SegmentElements(model, SegmentOfBlock(model.head_block()));
}

double StageTimes::optimizer_share(const StageForm& stage) const {
  return problem_.constraints.saves_memory ? optimizer_share_ * OwnShare(stage.units) : optimizer_share_;
}

double StageTimes::ForwardSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const BlockTimes& times = kind.PassesOf(stage.saving, stage.size).times;
  double layers = stage.layers * times.layer.forward_seconds;
  if (CountsCopies(stage)) {
    const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
    layers = std::max(layers, copies.forward_fetched * kind.FetchSeconds());
  }
  return layers + (stage.first ? times.embedding.forward_seconds : 0) +
         (stage.from_end == 1 ? times.head.forward_seconds : 0);
}

double StageTimes::BackwardSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const StageKind::Passes& passes = kind.PassesOf(stage.saving, stage.size);
  const BlockTimes& times = passes.times;
  const double again = passes.layer_recompute_seconds[static_cast<int>(stage.saving.recompute)];
  double layers =
      stage.layers * times.layer.backward_seconds + stage.saving.RecomputedOf(stage.layers) * again;
  if (CountsCopies(stage)) {
    const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
    layers = std::max({layers, copies.backward_fetched * kind.FetchSeconds(),
                       copies.backward_stored * kind.StoreSeconds()});
  }
  const double computed = layers + (stage.first ? times.embedding.backward_seconds : 0) +
                          (stage.from_end == 1 ? times.head.backward_seconds : 0);
  const double stored = StoredActivationsSeconds(stage);
  return stored > 0 ? std::max(computed, stored - ForwardSeconds(stage)) : computed;
}

double StageTimes::WeightGradientSeconds(const StageForm& stage) const {
  if (stage.saving.recompute != Recompute::kNone) return 0;
  const BlockTimes& times = kinds_[stage.kind].PassesOf(stage.saving, stage.size).times;
  return stage.layers * times.layer.weight_gradient_seconds +
         (stage.first ? times.embedding.weight_gradient_seconds : 0) +
         (stage.from_end == 1 ? times.head.weight_gradient_seconds : 0);
}

double StageTimes::WaySeconds(const StageForm& stage) const {
  const bool waits = stage.from_end > 1 && stage.layers > 0;
  const StageKind& kind = kinds_[stage.kind];
  // Nobody has to have all rows who passes his own; of bounds messages do not have it.
  const int gathers = scope_.of_bounds && !stage.saving.sequence_parallel
                          ? (stage.first ? 0 : 1) + (stage.from_end > 1 ? 1 : 0)
                          : 0;
  return PassSeconds(stage) + gathers * kind.gather_seconds[stage.size] - (waits ? AheadSeconds(stage) : 0);
}

// Bounds count as much as any way to recompute has: what takes least altogether may be more layers of which each takes less.
double StageTimes::AheadSeconds(const StageForm& stage) const {
  const auto& of_layer = kinds_[stage.kind].PassesOf(stage.saving, stage.size).layer_recompute_seconds;
  const double again = of_layer[static_cast<int>(stage.saving.recompute)];
  if (!scope_.of_bounds) return again;
  return std::min(stage.saving.RecomputedOf(stage.layers) * again,
                  of_layer[static_cast<int>(Recompute::kLayers)]);
}

Bytes StageTimes::KeptBytes(const StageForm& stage) const {
  const StageKind::Passes& passes = kinds_[stage.kind].PassesOf(stage.saving, stage.size);
  const int again = stage.saving.RecomputedOf(stage.layers);
  return again * passes.layer_kept[static_cast<int>(stage.saving.recompute)] +
         (stage.layers - again) * passes.layer_kept[static_cast<int>(Recompute::kNone)] +
         (stage.first ? passes.embedding_kept : Bytes{});
}

// In each period of 1F1B one micro-batch's go there and those of another come back, beside all that is computed.
double StageTimes::StoredActivationsSeconds(const StageForm& stage) const {
  if (stage.saving.activations_home == ActivationsHome::kDevice || scope_.of_bounds ||
      stage.from_end < kFewestFromEndToStore)
    return 0;
  const StageKind& kind = kinds_[stage.kind];
  return static_cast<double>(KeptBytes(stage).value) /
         std::min(kind.fetch_bytes_per_second, kind.store_bytes_per_second);
}

int64_t StageTimes::Parameters(const StageForm& stage) const {
  return stage.layers * layer_parameters_ + (stage.first ? embedding_parameters_ : 0) +
         (stage.from_end == 1 ? head_parameters_ : 0) +
         (stage.first || stage.from_end == 1 ? tied_parameters_ : 0);
}

double StageTimes::UpdateSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const double updates = optimizer_share(stage) * static_cast<double>(Parameters(stage)) *
                         kind.cost.update_seconds_per_parameter;
  if (!CountsCopies(stage)) return updates;
  const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
  return std::max(
      {updates, copies.end_fetched * kind.FetchSeconds(), copies.end_stored * kind.StoreSeconds()});
}

}  // namespace medley
