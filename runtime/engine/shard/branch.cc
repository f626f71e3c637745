#include "runtime/engine/shard/branch.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/block_sizes.h"

namespace medley {

Norm Norm::Kept(const PassShape& shape, Carver& carver) {
  const int64_t rows = shape.own().size();
  Norm norm;
  if (FamilyOf(shape.config).norm == NormKind::kLayerNorm) norm.mean = carver.Take(rows, Dtype::kF32);
  norm.rstd = carver.Take(rows, Dtype::kF32);
  return norm;
}

Slice Norm::parameters() const {
  Slice all = weight;
  if (!bias.empty()) all.elements = (bias.offset_bytes - weight.offset_bytes) / 4 + bias.elements;
  return all;
}

namespace {

absl::Status OwnNormForward(Ops& ops, const PassShape& shape, const Norm& norm, const Slice& x,
                            const Slice& y) {
  const int64_t rows = shape.own().size(), columns = shape.config.hidden;
  const float epsilon = shape.config.norm_epsilon;
  switch (FamilyOf(shape.config).norm) {
    case NormKind::kLayerNorm:
      return ops.LayerNormForward({.x = x,
                                   .gamma = norm.weight,
                                   .beta = norm.bias,
                                   .y = y,
                                   .mean = norm.mean,
                                   .rstd = norm.rstd,
                                   .rows = rows,
                                   .columns = columns,
                                   .epsilon = epsilon});
    case NormKind::kRmsNorm:
      break;
  }
  return ops.RmsNormForward({.x = x,
                             .gamma = norm.weight,
                             .y = y,
                             .rstd = norm.rstd,
                             .rows = rows,
                             .columns = columns,
                             .epsilon = epsilon});
}

}  // namespace

absl::Status NormForward(Ops& ops, const PassShape& shape, const Norm& norm, const Slice& x, const Slice& y) {
  RETURN_IF_ERROR(OwnNormForward(ops, shape, norm, x, OwnRows(shape, y)));
  return GatherRows(shape, y);
}

absl::Status NormBackward(Ops& ops, const PassShape& shape, const Norm& norm, const Norm& gradient,
                          const Slice& x, const Slice& all_dy, const Slice& dx, Store store_dx) {
  const int64_t rows = shape.own().size(), columns = shape.config.hidden;
  const Slice dy = OwnRows(shape, all_dy);
  switch (FamilyOf(shape.config).norm) {
    case NormKind::kLayerNorm:
      return ops.LayerNormBackward({.dy = dy,
                                    .x = x,
                                    .gamma = norm.weight,
                                    .mean = norm.mean,
                                    .rstd = norm.rstd,
                                    .dx = dx,
                                    .dgamma = gradient.weight,
                                    .dbeta = gradient.bias,
                                    .rows = rows,
                                    .columns = columns,
                                    .store_dx = store_dx});
    case NormKind::kRmsNorm:
      break;
  }
  return ops.RmsNormBackward({.dy = dy,
                              .x = x,
                              .gamma = norm.weight,
                              .rstd = norm.rstd,
                              .dx = dx,
                              .dgamma = gradient.weight,
                              .rows = rows,
                              .columns = columns,
                              .store_dx = store_dx});
}

BranchTensors BranchTensors::Of(const ParameterArena& arena, ParameterArena::Part part, LayerId layer,
                                int branch) {
  const Family& family = FamilyOf(arena.config());
  const BranchKind& kind = family.branches[branch];
  const auto tensor = [&](const char* name, const char* what) {
    return arena.Tensor(part, absl::StrCat(family.layers, ".", layer.value(), ".", name, ".", what));
  };
  BranchTensors tensors;
  tensors.norm.weight = tensor(kind.norm, "weight");
  if (HasBias(family.norm)) tensors.norm.bias = tensor(kind.norm, "bias");
  // From the first tensor to the end of the last one, which the arena puts behind it.
  tensors.in_weight = tensor(kind.in.front().name, "weight");
  const Slice last = tensor(kind.in.back().name, "weight");
  tensors.in_weight.elements = (last.offset_bytes - tensors.in_weight.offset_bytes) / 4 + last.elements;
  tensors.out_weight = tensor(kind.out.name, "weight");
  if (family.has_biases) {
    tensors.in_bias = tensor(kind.in.front().name, "bias");
    tensors.out_bias = tensor(kind.out.name, "bias");
  }
  return tensors;
}

BranchStash BranchStash::Of(const PassShape& shape, const BranchKind& kind, bool is_last, Carver& kept,
                            Carver* made_again) {
  const int64_t rows = shape.rows();
  Carver& again = made_again == nullptr ? kept : *made_again;
  Carver& attention = shape.made_again.what == Recompute::kLayers ? again : kept;
  BranchStash stash;
  stash.norm = Norm::Kept(shape, again);
  stash.inner = again.Take(rows * InnerWidth(shape.config, kind), shape.activations);
  if (kind.core == CoreKind::kAttention) {
    stash.attended = attention.Take(rows * CoreWidth(shape.config, kind), shape.activations);
    stash.log_sum_exp = attention.Take(rows * shape.config.heads, Dtype::kF32);
  }
  stash.stream = (is_last ? kept : again).Take(shape.own().size() * shape.config.hidden, shape.activations);
  return stash;
}

BranchStash RowsOf(const PassShape& shape, const BranchStash& stash, const RowRange& part) {
  const auto rows = [&](const Slice& x) { return RowsOf(shape, x, part); };
  BranchStash result;
  result.norm.mean = rows(stash.norm.mean);
  result.norm.rstd = rows(stash.norm.rstd);
  result.inner = rows(stash.inner);
  result.attended = rows(stash.attended);
  result.log_sum_exp = rows(stash.log_sum_exp);
  result.stream = rows(stash.stream);
  return result;
}

Workspace RowsOf(const PassShape& shape, const Workspace& workspace, const RowRange& part) {
  Workspace result = workspace;
  for (Slice* x : {&result.normed, &result.core_gradient, &result.activated}) *x = RowsOf(shape, *x, part);
  return result;
}

Workspace Workspace::Of(const PassShape& shape, absl::Span<const BlockRange> chunks, Carver& carver) {
  const ModelConfig& config = shape.config;
  const bool has_layer = HaveLayer(config, chunks);
  const int64_t C = config.hidden;
  const auto tensor = [&](int64_t columns) { return carver.Take(shape.rows() * columns, shape.activations); };
  Workspace workspace;
  // First, so that they are in one place for micro-batches of all sizes.
  if (has_layer && FamilyOf(config).positions == PositionKind::kRotary) {
    workspace.cosine = carver.Take(shape.sequence * config.size_of_head() / 2, Dtype::kF32);
    workspace.sine = carver.Take(shape.sequence * config.size_of_head() / 2, Dtype::kF32);
  }
  workspace.normed = tensor(C);
  workspace.core_gradient = tensor(has_layer ? WidestCoreGradient(config) : C);
  workspace.stream_gradient = carver.Take(shape.own().size() * C, shape.activations);
  if (Holds(chunks, config.head_block()) && shape.ranks > 1) {
    workspace.statistics = carver.Take((shape.ranks + 1) * shape.rows(), Dtype::kF32);
    workspace.log_sum_exp = carver.Take(shape.rows(), Dtype::kF32);
  }
  if (!has_layer) return workspace;
  workspace.activated = tensor(WidestActivated(config));
  workspace.inner_gradient = tensor(WidestInner(config));
  return workspace;
}

Branch::Branch(const ParameterArena& arena, const PassShape& shape, LayerId layer, int branch)
    : family_(FamilyOf(shape.config)),
      kind_(family_.branches[branch]),
      shape_(shape),
      inner_(InnerWidth(shape.config, kind_)),
      core_(CoreWidth(shape.config, kind_)),
      parameters_(BranchTensors::Of(arena, ParameterArena::Part::kParameter, layer, branch)),
      gradients_(BranchTensors::Of(arena, ParameterArena::Part::kGradient, layer, branch)) {}

Branch::Branch(const Branch& whole, const PassShape& part)
    : family_(whole.family_),
      kind_(whole.kind_),
      shape_(part),
      inner_(whole.inner_),
      core_(whole.core_),
      parameters_(whole.parameters_),
      gradients_(whole.gradients_) {}

Branch::Linear Branch::In(const BranchTensors& t) const {
  return {t.in_weight, t.in_bias, shape_.config.hidden, inner_};
}

Branch::Linear Branch::Out(const BranchTensors& t) const {
  return {t.out_weight, t.out_bias, core_, shape_.config.hidden};
}

absl::Status Branch::Apply(Ops& ops, const Linear& map, const Slice& in, const Slice& out,
                           const FusedEpilogue& fused) const {
  return ops.Matmul({.a = in,
                     .b = map.weight,
                     .c = out,
                     .m = shape_.rows(),
                     .n = map.outputs,
                     .k = map.inputs,
                     .transpose_b = family_.weights == WeightOrder::kOutIn ? Transpose::kYes : Transpose::kNo,
                     .bias = map.bias,
                     .precision = shape_.precision,
                     .b_constness = Constness::kParameter,
                     .epilogue = fused.epilogue,
                     .pre_activation = fused.pre_activation});
}

absl::Status Branch::ApplyBack(Ops& ops, const Linear& map, const Slice& out_gradient,
                               const Slice& in_gradient, const FusedEpilogue& fused) const {
  return ops.Matmul({.a = out_gradient,
                     .b = map.weight,
                     .c = in_gradient,
                     .m = shape_.rows(),
                     .n = map.inputs,
                     .k = map.outputs,
                     .transpose_b = family_.weights == WeightOrder::kOutIn ? Transpose::kNo : Transpose::kYes,
                     .precision = shape_.precision,
                     .b_constness = Constness::kParameter,
                     .epilogue = fused.epilogue,
                     .pre_activation = fused.pre_activation});
}

absl::Status Branch::AddWeightGradient(Ops& ops, const Linear& gradient, const Slice& in,
                                       const Slice& out_gradient) const {
  const bool out_in = family_.weights == WeightOrder::kOutIn;
  RETURN_IF_ERROR(ops.Matmul({.a = out_in ? out_gradient : in,
                              .b = out_in ? in : out_gradient,
                              .c = gradient.weight,
                              .m = out_in ? gradient.outputs : gradient.inputs,
                              .n = out_in ? gradient.inputs : gradient.outputs,
                              .k = shape_.rows(),
                              .transpose_a = Transpose::kYes,
                              .store = Store::kAdd,
                              .precision = shape_.precision}));
  if (gradient.bias.empty()) return absl::OkStatus();
  return ops.SumRows(
      {.x = out_gradient, .out = gradient.bias, .rows = shape_.rows(), .columns = gradient.outputs});
}

absl::Status Branch::Turn(Ops& ops, const Slice& qkv, const Workspace& work, Rotation rotation) const {
  if (family_.positions != PositionKind::kRotary) return absl::OkStatus();
  const ModelConfig& config = shape_.config;
  return ops.Rotary({.x = qkv,
                     .cosine = work.cosine,
                     .sine = work.sine,
                     .batch = shape_.batch,
                     .sequence = shape_.sequence,
                     .rotated_heads = config.heads + config.key_value_head_count(),
                     .row_heads = config.joined_heads(),
                     .head_size = config.size_of_head(),
                     .rotation = rotation});
}

absl::Status Branch::Activate(Ops& ops, const BranchStash& stash, const Slice& activated) const {
  const int64_t rows = shape_.rows();
  if (kind_.core == CoreKind::kSwiGlu)
    return ops.SwiGluForward({.x = stash.inner, .y = activated, .rows = rows, .columns = core_});
  return ops.GeluForward({.x = stash.inner, .y = activated, .elements = rows * core_});
}

absl::Status Branch::MakeInner(Ops& ops, const Slice& x, const BranchStash& stash,
                               const Workspace& work) const {
  RETURN_IF_ERROR(NormForward(ops, shape_, stash.norm.With(parameters_.norm), x, work.normed));
  if (kind_.core != CoreKind::kGelu) return Apply(ops, In(parameters_), work.normed, stash.inner);
  return Apply(ops, In(parameters_), work.normed, work.activated,
               {.epilogue = Epilogue::kGelu, .pre_activation = stash.inner});
}

absl::Status Branch::MakeCore(Ops& ops, const BranchStash& stash, const Workspace& work, bool attends) const {
  const ModelConfig& config = shape_.config;
  switch (kind_.core) {
    case CoreKind::kAttention:
      RETURN_IF_ERROR(Turn(ops, stash.inner, work, Rotation::kForward));
      if (!attends) break;
      return ops.AttentionForward({.qkv = stash.inner,
                                   .out = stash.attended,
                                   .log_sum_exp = stash.log_sum_exp,
                                   .batch = shape_.batch,
                                   .sequence = shape_.sequence,
                                   .heads = config.heads,
                                   .key_value_heads = config.key_value_head_count(),
                                   .head_size = config.size_of_head(),
                                   .precision = shape_.precision});
    case CoreKind::kGelu:  // with its inner
      break;
    case CoreKind::kSwiGlu:
      return Activate(ops, stash, work.activated);
  }
  return absl::OkStatus();
}

absl::Status Branch::AddToStream(Ops& ops, const Slice& x, const Slice& y, const BranchStash& stash,
                                 const Workspace& work, SumThen sum) const {
  Linear out = Out(parameters_);
  if (shape_.group != nullptr && shape_.group->member() > 0) out.bias = {};  // one of the ranks adds it
  const Slice added = shape_.sequence_parallel ? work.normed : y;
  RETURN_IF_ERROR(Apply(ops, out, MadeIn(stash, work), added));
  const Slice own = OwnRows(shape_, added);
  return sum(added,
             [&ops, own, x, y] { return ops.Add({.a = own, .b = x, .c = y, .elements = own.elements}); });
}

absl::Status Branch::MadeGradient(Ops& ops, const Slice& dy, const CoreGradients& core,
                                  const BranchStash& stash, const Workspace& work) const {
  Slice all_dy;
  RETURN_IF_ERROR(AllRows(ops, shape_, dy, work.normed, all_dy));
  return MadeGradientOf(ops, all_dy, core, stash);
}

absl::Status Branch::MadeGradientOf(Ops& ops, const Slice& all_dy, const CoreGradients& core,
                                    const BranchStash& stash) const {
  const Linear out = Out(parameters_);
  if (kind_.core != CoreKind::kGelu) return ApplyBack(ops, out, all_dy, core.made);
  return ApplyBack(ops, out, all_dy, core.inner,
                   {.epilogue = Epilogue::kGeluGradient, .pre_activation = stash.inner});
}

absl::Status Branch::InnerGradient(Ops& ops, const CoreGradients& core, const BranchStash& stash,
                                   const Workspace& work) const {
  const ModelConfig& config = shape_.config;
  switch (kind_.core) {
    case CoreKind::kAttention:
      RETURN_IF_ERROR(ops.AttentionBackward({.qkv = stash.inner,
                                             .out = stash.attended,
                                             .log_sum_exp = stash.log_sum_exp,
                                             .dout = core.made,
                                             .dqkv = core.inner,
                                             .batch = shape_.batch,
                                             .sequence = shape_.sequence,
                                             .heads = config.heads,
                                             .key_value_heads = config.key_value_head_count(),
                                             .head_size = config.size_of_head(),
                                             .precision = shape_.precision}));
      return Turn(ops, core.inner, work, Rotation::kBackward);
    case CoreKind::kGelu:  // there already
      break;
    case CoreKind::kSwiGlu:
      return ops.SwiGluBackward(
          {.x = stash.inner, .dy = core.made, .dx = core.inner, .rows = shape_.rows(), .columns = core_});
  }
  return absl::OkStatus();
}

absl::Status Branch::NormGradient(Ops& ops, const Slice& x, const StreamGradients& gradients,
                                  const Slice& inner_gradient, const BranchStash& stash,
                                  const Workspace& work, SumThen sum) const {
  const int64_t columns = shape_.config.hidden;
  const Slice normed_gradient = work.core_gradient.Sub(0, shape_.rows() * columns);
  RETURN_IF_ERROR(ApplyBack(ops, In(parameters_), inner_gradient, normed_gradient));
  const Norm norm = stash.norm.With(parameters_.norm);
  return sum(normed_gradient, [this, &ops, norm, x, gradients, normed_gradient]() -> absl::Status {
    const auto& [dx, dy] = gradients;
    // Added to what came, in one place: the same bits wherever the stream's gradient lies.
    if (!(dx == dy)) RETURN_IF_ERROR(ops.Cast({.x = dy, .y = dx, .elements = dy.elements}));
    return NormBackward(ops, shape_, norm, gradients_.norm, x, normed_gradient, dx, Store::kAdd);
  });
}

absl::Status Branch::WeightGradient(Ops& ops, const Slice& x, const Slice& dy, const Slice& inner_gradient,
                                    const BranchStash& stash, const Workspace& work) const {
  Slice all_dy;
  RETURN_IF_ERROR(AllRows(ops, shape_, dy, work.normed, all_dy));
  return AddWeightGradients(ops, x, all_dy, inner_gradient, stash, work);
}

absl::Status Branch::AddWeightGradients(Ops& ops, const Slice& x, const Slice& all_dy,
                                        const Slice& inner_gradient, const BranchStash& stash,
                                        const Workspace& work) const {
  // The activation's output and the normed input are made again: cheap beside keeping them.
  if (!core_joins_rows()) RETURN_IF_ERROR(Activate(ops, stash, work.activated));
  RETURN_IF_ERROR(AddWeightGradient(ops, Out(gradients_), MadeIn(stash, work), all_dy));
  RETURN_IF_ERROR(NormForward(ops, shape_, stash.norm.With(parameters_.norm), x, work.normed));
  return AddWeightGradient(ops, In(gradients_), work.normed, inner_gradient);
}

absl::Status Branch::Backward(Ops& ops, const Slice& x, const StreamGradients& gradients,
                              const BranchStash& stash, const Workspace& work, SumThen sum) const {
  // The weights' before dx, which may take the place of dy.
  Slice all_dy;
  RETURN_IF_ERROR(AllRows(ops, shape_, gradients.dy, work.normed, all_dy));
  const CoreGradients core = {.made = work.core_gradient, .inner = work.inner_gradient};
  RETURN_IF_ERROR(MadeGradientOf(ops, all_dy, core, stash));
  RETURN_IF_ERROR(InnerGradient(ops, core, stash, work));
  RETURN_IF_ERROR(AddWeightGradients(ops, x, all_dy, work.inner_gradient, stash, work));
  return NormGradient(ops, x, gradients, work.inner_gradient, stash, work, sum);
}

absl::Status Branch::JoinNormGradient() const {
  return shape_.sequence_parallel ? shape_.group->Sum(gradients_.norm.parameters()) : absl::OkStatus();
}

}  // namespace medley
