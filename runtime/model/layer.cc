#include "runtime/model/layer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// What a product does beside multiplying.
struct Fused {
  Epilogue epilogue = Epilogue::kNone;
  Slice pre_activation;
};

// A linear map of rows: y = x weight (+ bias).
struct Linear {
  Slice weight, bias;
  int64_t inputs = 0, outputs = 0;
};

// out[rows, outputs] = in[rows, inputs] through `map`.
absl::Status LinearForward(Ops& ops, const PassShape& shape, const Linear& map, const Slice& in,
                           const Slice& out, const Fused& fused = {}) {
  return ops.Matmul({.a = in,
                     .b = map.weight,
                     .c = out,
                     .m = shape.rows(),
                     .n = map.outputs,
                     .k = map.inputs,
                     .transpose_b = shape.config.is_llama() ? Transpose::kYes : Transpose::kNo,
                     .bias = map.bias,
                     .precision = shape.precision,
                     .b_constness = Constness::kParameter,
                     .epilogue = fused.epilogue,
                     .pre_activation = fused.pre_activation});
}

// in_gradient = gradient through `map` of out_gradient; adds to the weight's and the bias's.
absl::Status LinearBackward(Ops& ops, const PassShape& shape, const Linear& map, const Linear& gradient,
                            const Slice& in, const Slice& out_gradient, const Slice& in_gradient,
                            const Fused& fused = {}) {
  const int64_t rows = shape.rows();
  const bool out_in = shape.config.is_llama();
  RETURN_IF_ERROR(ops.Matmul({.a = out_gradient,
                              .b = map.weight,
                              .c = in_gradient,
                              .m = rows,
                              .n = map.inputs,
                              .k = map.outputs,
                              .transpose_b = out_in ? Transpose::kNo : Transpose::kYes,
                              .precision = shape.precision,
                              .b_constness = Constness::kParameter,
                              .epilogue = fused.epilogue,
                              .pre_activation = fused.pre_activation}));
  RETURN_IF_ERROR(ops.Matmul({.a = out_in ? out_gradient : in,
                              .b = out_in ? in : out_gradient,
                              .c = gradient.weight,
                              .m = out_in ? map.outputs : map.inputs,
                              .n = out_in ? map.inputs : map.outputs,
                              .k = rows,
                              .transpose_a = Transpose::kYes,
                              .store = Store::kAdd,
                              .precision = shape.precision}));
  if (map.bias.empty()) return absl::OkStatus();
  return ops.SumRows({.x = out_gradient, .out = gradient.bias, .rows = rows, .columns = map.outputs});
}

// Sums `x` over the ranks that share the layer.
absl::Status SumOverRanks(const PassShape& shape, const Slice& x) {
  return shape.group == nullptr ? absl::OkStatus() : shape.group->Sum(x);
}

// out[rows, outputs] = in through `map`, of whose inputs each rank has some: one of them adds the bias.
absl::Status SharedLinearForward(Ops& ops, const PassShape& shape, Linear map, const Slice& in,
                                 const Slice& out) {
  if (shape.group != nullptr && shape.group->member() > 0) map.bias = {};
  RETURN_IF_ERROR(LinearForward(ops, shape, map, in, out));
  return SumOverRanks(shape, out);
}

Linear Qkv(const ModelConfig& c, const LayerTensors& t) {
  return {t.qkv_weight, t.qkv_bias, c.hidden, c.joined_width()};
}
Linear Projection(const ModelConfig& c, const LayerTensors& t) {
  return {t.projection_weight, t.projection_bias, c.attention_width(), c.hidden};
}
Linear Expand(const ModelConfig& c, const LayerTensors& t) {
  return {t.expand_weight, t.expand_bias, c.hidden, c.expanded_width()};
}
Linear Contract(const ModelConfig& c, const LayerTensors& t) {
  return {t.contract_weight, t.contract_bias, c.feed_forward, c.hidden};
}

absl::Status Rotate(Ops& ops, const PassShape& shape, const Workspace& work, const Slice& qkv,
                    Rotation rotation) {
  const ModelConfig& config = shape.config;
  if (!config.is_llama()) return absl::OkStatus();
  return ops.Rotary({.x = qkv,
                     .cosine = work.cosine,
                     .sine = work.sine,
                     .batch = shape.batch,
                     .sequence = shape.sequence,
                     .rotated_heads = config.heads + config.key_value_head_count(),
                     .row_heads = config.joined_heads(),
                     .head_size = config.size_of_head(),
                     .rotation = rotation});
}

// The activation again from what was kept.
absl::Status Activate(Ops& ops, const PassShape& shape, const LayerStash& stash, const Workspace& work) {
  const int64_t rows = shape.rows(), F = shape.config.feed_forward;
  if (shape.config.is_llama()) {
    return ops.SwiGluForward({.x = stash.hidden, .y = work.activated, .rows = rows, .columns = F});
  }
  return ops.GeluForward({.x = stash.hidden, .y = work.activated, .elements = rows * F});
}

}  // namespace

absl::Status NormForward(Ops& ops, const PassShape& shape, const Norm& norm, const Slice& x, const Slice& y) {
  const int64_t rows = shape.rows(), columns = shape.config.hidden;
  const float epsilon = shape.config.norm_epsilon;
  if (shape.config.is_llama()) {
    return ops.RmsNormForward({.x = x,
                               .gamma = norm.weight,
                               .y = y,
                               .rstd = norm.rstd,
                               .rows = rows,
                               .columns = columns,
                               .epsilon = epsilon});
  }
  return ops.LayerNormForward({.x = x,
                               .gamma = norm.weight,
                               .beta = norm.bias,
                               .y = y,
                               .mean = norm.mean,
                               .rstd = norm.rstd,
                               .rows = rows,
                               .columns = columns,
                               .epsilon = epsilon});
}

absl::Status NormBackward(Ops& ops, const PassShape& shape, const Norm& norm, const Norm& gradient,
                          const Slice& x, const Slice& dy, const Slice& dx, Store store_dx) {
  const int64_t rows = shape.rows(), columns = shape.config.hidden;
  if (shape.config.is_llama()) {
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
}

LayerTensors LayerTensors::Of(const ParameterArena& arena, ParameterArena::Part part, int layer) {
  if (arena.config().is_llama()) {
    const auto tensor = [&](const char* name) {
      return arena.Tensor(part, absl::StrCat("layers.", layer, ".", name));
    };
    // From one tensor to the end of another that the layout puts behind it.
    const auto joined = [&](const char* first, const char* last) {
      Slice slice = tensor(first);
      const Slice end = tensor(last);
      slice.elements = (end.offset_bytes - slice.offset_bytes) / 4 + end.elements;
      return slice;
    };
    return {.norm1_weight = tensor("input_layernorm.weight"),
            .qkv_weight = joined("self_attn.q_proj.weight", "self_attn.v_proj.weight"),
            .projection_weight = tensor("self_attn.o_proj.weight"),
            .norm2_weight = tensor("post_attention_layernorm.weight"),
            .expand_weight = joined("mlp.gate_proj.weight", "mlp.up_proj.weight"),
            .contract_weight = tensor("mlp.down_proj.weight")};
  }
  const auto tensor = [&](const char* name) {
    return arena.Tensor(part, absl::StrCat("h.", layer, ".", name));
  };
  return {.norm1_weight = tensor("ln_1.weight"),
          .norm1_bias = tensor("ln_1.bias"),
          .qkv_weight = tensor("attn.c_attn.weight"),
          .qkv_bias = tensor("attn.c_attn.bias"),
          .projection_weight = tensor("attn.c_proj.weight"),
          .projection_bias = tensor("attn.c_proj.bias"),
          .norm2_weight = tensor("ln_2.weight"),
          .norm2_bias = tensor("ln_2.bias"),
          .expand_weight = tensor("mlp.c_fc.weight"),
          .expand_bias = tensor("mlp.c_fc.bias"),
          .contract_weight = tensor("mlp.c_proj.weight"),
          .contract_bias = tensor("mlp.c_proj.bias")};
}

LayerStash LayerStash::Of(const PassShape& shape, Carver& carver) {
  const ModelConfig& config = shape.config;
  const int64_t rows = shape.rows(), C = config.hidden;
  const auto mean = [&] { return config.is_llama() ? Slice{} : carver.Take(rows); };
  LayerStash stash;
  stash.mean1 = mean();
  stash.rstd1 = carver.Take(rows);
  stash.qkv = carver.Take(rows * config.joined_width());
  stash.attention = carver.Take(rows * config.attention_width());
  stash.log_sum_exp = carver.Take(rows * config.heads);
  stash.residual = carver.Take(rows * C);
  stash.mean2 = mean();
  stash.rstd2 = carver.Take(rows);
  stash.hidden = carver.Take(rows * config.expanded_width());
  stash.output = carver.Take(rows * C);
  return stash;
}

Workspace Workspace::Of(const PassShape& shape, bool has_layer, Carver& carver) {
  const ModelConfig& config = shape.config;
  const int64_t rows = shape.rows(), C = config.hidden, F = config.feed_forward;
  Workspace workspace;
  workspace.normed = carver.Take(rows * C);
  workspace.normed_gradient = carver.Take(rows * (has_layer ? std::max(C, config.attention_width()) : C));
  workspace.residual_gradient = carver.Take(rows * C);
  if (!has_layer) return workspace;
  workspace.activated = carver.Take(rows * F);
  if (config.is_llama()) workspace.activated_gradient = carver.Take(rows * F);
  workspace.hidden_gradient = carver.Take(rows * config.expanded_width());
  workspace.qkv_gradient = carver.Take(rows * config.joined_width());
  if (config.is_llama()) {
    workspace.cosine = carver.Take(shape.sequence * config.size_of_head() / 2);
    workspace.sine = carver.Take(shape.sequence * config.size_of_head() / 2);
  }
  return workspace;
}

absl::Status LayerForward(Ops& ops, const PassShape& shape, const LayerTensors& p, const Slice& input,
                          const Slice& output, const LayerStash& stash, const Workspace& work) {
  const ModelConfig& config = shape.config;
  const int64_t elements = shape.rows() * config.hidden;
  RETURN_IF_ERROR(
      NormForward(ops, shape, {p.norm1_weight, p.norm1_bias, stash.mean1, stash.rstd1}, input, work.normed));
  RETURN_IF_ERROR(LinearForward(ops, shape, Qkv(config, p), work.normed, stash.qkv));
  RETURN_IF_ERROR(Rotate(ops, shape, work, stash.qkv, Rotation::kForward));
  RETURN_IF_ERROR(ops.AttentionForward({.qkv = stash.qkv,
                                        .out = stash.attention,
                                        .log_sum_exp = stash.log_sum_exp,
                                        .batch = shape.batch,
                                        .sequence = shape.sequence,
                                        .heads = config.heads,
                                        .key_value_heads = config.key_value_head_count(),
                                        .head_size = config.size_of_head(),
                                        .precision = shape.precision}));
  RETURN_IF_ERROR(SharedLinearForward(ops, shape, Projection(config, p), stash.attention, stash.residual));
  RETURN_IF_ERROR(ops.Add({.a = stash.residual, .b = input, .c = stash.residual, .elements = elements}));
  RETURN_IF_ERROR(NormForward(ops, shape, {p.norm2_weight, p.norm2_bias, stash.mean2, stash.rstd2},
                              stash.residual, work.normed));
  if (config.is_llama()) {
    RETURN_IF_ERROR(LinearForward(ops, shape, Expand(config, p), work.normed, stash.hidden));
    RETURN_IF_ERROR(Activate(ops, shape, stash, work));
  } else {
    RETURN_IF_ERROR(LinearForward(ops, shape, Expand(config, p), work.normed, work.activated,
                                  {.epilogue = Epilogue::kGelu, .pre_activation = stash.hidden}));
  }
  RETURN_IF_ERROR(SharedLinearForward(ops, shape, Contract(config, p), work.activated, output));
  return ops.Add({.a = output, .b = stash.residual, .c = output, .elements = elements});
}

absl::Status LayerBackward(Ops& ops, const PassShape& shape, const LayerTensors& p, const LayerTensors& g,
                           const Slice& input, const Slice& output_gradient, const Slice& input_gradient,
                           const LayerStash& stash, const Workspace& work) {
  const ModelConfig& config = shape.config;
  const int64_t rows = shape.rows(), elements = rows * config.hidden;
  const Norm norm1 = {p.norm1_weight, p.norm1_bias, stash.mean1, stash.rstd1};
  const Norm norm2 = {p.norm2_weight, p.norm2_bias, stash.mean2, stash.rstd2};
  // MLP. The activation's output and the normed inputs are made again: cheap beside keeping them.
  RETURN_IF_ERROR(Activate(ops, shape, stash, work));
  if (config.is_llama()) {
    RETURN_IF_ERROR(LinearBackward(ops, shape, Contract(config, p), Contract(config, g), work.activated,
                                   output_gradient, work.activated_gradient));
    RETURN_IF_ERROR(ops.SwiGluBackward({.x = stash.hidden,
                                        .dy = work.activated_gradient,
                                        .dx = work.hidden_gradient,
                                        .rows = rows,
                                        .columns = config.feed_forward}));
  } else {
    RETURN_IF_ERROR(LinearBackward(ops, shape, Contract(config, p), Contract(config, g), work.activated,
                                   output_gradient, work.hidden_gradient,
                                   {.epilogue = Epilogue::kGeluGradient, .pre_activation = stash.hidden}));
  }
  RETURN_IF_ERROR(NormForward(ops, shape, norm2, stash.residual, work.normed));
  RETURN_IF_ERROR(LinearBackward(ops, shape, Expand(config, p), Expand(config, g), work.normed,
                                 work.hidden_gradient, work.normed_gradient));
  const Slice normed_gradient = work.normed_gradient.Sub(0, elements);
  RETURN_IF_ERROR(SumOverRanks(shape, normed_gradient));
  RETURN_IF_ERROR(NormBackward(ops, shape, norm2, {g.norm2_weight, g.norm2_bias}, stash.residual,
                               normed_gradient, work.normed, Store::kOverwrite));
  RETURN_IF_ERROR(
      ops.Add({.a = work.normed, .b = output_gradient, .c = input_gradient, .elements = elements}));
  // Attention. input_gradient now holds the gradient of the residual stream between the two halves.
  RETURN_IF_ERROR(LinearBackward(ops, shape, Projection(config, p), Projection(config, g), stash.attention,
                                 input_gradient, work.normed_gradient));
  RETURN_IF_ERROR(ops.AttentionBackward({.qkv = stash.qkv,
                                         .out = stash.attention,
                                         .log_sum_exp = stash.log_sum_exp,
                                         .dout = work.normed_gradient,
                                         .dqkv = work.qkv_gradient,
                                         .batch = shape.batch,
                                         .sequence = shape.sequence,
                                         .heads = config.heads,
                                         .key_value_heads = config.key_value_head_count(),
                                         .head_size = config.size_of_head(),
                                         .precision = shape.precision}));
  RETURN_IF_ERROR(Rotate(ops, shape, work, work.qkv_gradient, Rotation::kBackward));
  RETURN_IF_ERROR(NormForward(ops, shape, norm1, input, work.normed));
  RETURN_IF_ERROR(LinearBackward(ops, shape, Qkv(config, p), Qkv(config, g), work.normed, work.qkv_gradient,
                                 work.normed_gradient));
  RETURN_IF_ERROR(SumOverRanks(shape, normed_gradient));
  return NormBackward(ops, shape, norm1, {g.norm1_weight, g.norm1_bias}, input, normed_gradient,
                      input_gradient, Store::kAdd);
}

}  // namespace medley
