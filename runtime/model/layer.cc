#include "runtime/model/layer.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// out[rows, outputs] = in[rows, inputs] weight[inputs, outputs] + bias
absl::Status Linear(Ops& ops, const PassShape& shape, const Slice& in, const Slice& weight, const Slice& bias,
                    const Slice& out, int64_t inputs, int64_t outputs) {
  return ops.Matmul({.a = in, .b = weight, .c = out, .m = shape.rows(), .n = outputs, .k = inputs, .bias = bias,
                     .precision = shape.precision, .b_constness = Constness::kParameter});
}

// in_gradient = out_gradient weight^T; weight_gradient += in^T out_gradient; bias_gradient += column sums.
absl::Status LinearBackward(Ops& ops, const PassShape& shape, const Slice& in, const Slice& weight,
                            const Slice& out_gradient, const Slice& in_gradient, const Slice& weight_gradient,
                            const Slice& bias_gradient, int64_t inputs, int64_t outputs) {
  const int64_t rows = shape.rows();
  RETURN_IF_ERROR(ops.Matmul({.a = out_gradient, .b = weight, .c = in_gradient, .m = rows, .n = inputs, .k = outputs,
                              .transpose_b = Transpose::kYes, .precision = shape.precision,
                              .b_constness = Constness::kParameter}));
  RETURN_IF_ERROR(ops.Matmul({.a = in, .b = out_gradient, .c = weight_gradient, .m = inputs, .n = outputs, .k = rows,
                              .transpose_a = Transpose::kYes, .store = Store::kAdd, .precision = shape.precision}));
  return ops.SumRows({.x = out_gradient, .out = bias_gradient, .rows = rows, .columns = outputs});
}

absl::Status Norm(Ops& ops, const PassShape& shape, const Slice& x, const Slice& weight, const Slice& bias,
                  const Slice& mean, const Slice& rstd, const Slice& y) {
  return ops.LayerNormForward({.x = x, .gamma = weight, .beta = bias, .y = y, .mean = mean, .rstd = rstd,
                               .rows = shape.rows(), .columns = shape.config.hidden,
                               .epsilon = shape.config.norm_epsilon});
}

}  // namespace

LayerTensors LayerTensors::Of(const ParameterArena& arena, ParameterArena::Part part, int layer) {
  const auto tensor = [&](const char* name) { return arena.Tensor(part, absl::StrCat("h.", layer, ".", name)); };
  return {.norm1_weight = tensor("ln_1.weight"), .norm1_bias = tensor("ln_1.bias"),
          .qkv_weight = tensor("attn.c_attn.weight"), .qkv_bias = tensor("attn.c_attn.bias"),
          .projection_weight = tensor("attn.c_proj.weight"), .projection_bias = tensor("attn.c_proj.bias"),
          .norm2_weight = tensor("ln_2.weight"), .norm2_bias = tensor("ln_2.bias"),
          .expand_weight = tensor("mlp.c_fc.weight"), .expand_bias = tensor("mlp.c_fc.bias"),
          .contract_weight = tensor("mlp.c_proj.weight"), .contract_bias = tensor("mlp.c_proj.bias")};
}

LayerStash LayerStash::Of(const PassShape& shape, Carver& carver) {
  const int64_t rows = shape.rows(), C = shape.config.hidden, F = shape.config.feed_forward;
  LayerStash stash;
  stash.mean1 = carver.Take(rows);
  stash.rstd1 = carver.Take(rows);
  stash.qkv = carver.Take(rows * 3 * C);
  stash.attention = carver.Take(rows * C);
  stash.log_sum_exp = carver.Take(rows * shape.config.heads);
  stash.residual = carver.Take(rows * C);
  stash.mean2 = carver.Take(rows);
  stash.rstd2 = carver.Take(rows);
  stash.hidden = carver.Take(rows * F);
  stash.output = carver.Take(rows * C);
  return stash;
}

Workspace Workspace::Of(const PassShape& shape, bool has_layer, Carver& carver) {
  const int64_t rows = shape.rows(), C = shape.config.hidden, F = shape.config.feed_forward;
  Workspace workspace;
  workspace.normed = carver.Take(rows * C);
  workspace.normed_gradient = carver.Take(rows * C);
  workspace.residual_gradient = carver.Take(rows * C);
  if (has_layer) {
    workspace.activated = carver.Take(rows * F);
    workspace.hidden_gradient = carver.Take(rows * F);
    workspace.qkv_gradient = carver.Take(rows * 3 * C);
  }
  return workspace;
}

absl::Status LayerForward(Ops& ops, const PassShape& shape, const LayerTensors& p, const Slice& input,
                          const Slice& output, const LayerStash& stash, const Workspace& work) {
  const int64_t C = shape.config.hidden, F = shape.config.feed_forward, rows = shape.rows();
  RETURN_IF_ERROR(Norm(ops, shape, input, p.norm1_weight, p.norm1_bias, stash.mean1, stash.rstd1, work.normed));
  RETURN_IF_ERROR(Linear(ops, shape, work.normed, p.qkv_weight, p.qkv_bias, stash.qkv, C, 3 * C));
  RETURN_IF_ERROR(ops.AttentionForward({.qkv = stash.qkv, .out = stash.attention, .log_sum_exp = stash.log_sum_exp,
                                        .batch = shape.batch, .sequence = shape.sequence, .heads = shape.config.heads,
                                        .head_size = C / shape.config.heads, .precision = shape.precision}));
  RETURN_IF_ERROR(Linear(ops, shape, stash.attention, p.projection_weight, p.projection_bias, stash.residual, C, C));
  RETURN_IF_ERROR(ops.Add({.a = stash.residual, .b = input, .c = stash.residual, .elements = rows * C}));
  RETURN_IF_ERROR(
      Norm(ops, shape, stash.residual, p.norm2_weight, p.norm2_bias, stash.mean2, stash.rstd2, work.normed));
  RETURN_IF_ERROR(Linear(ops, shape, work.normed, p.expand_weight, p.expand_bias, stash.hidden, C, F));
  RETURN_IF_ERROR(ops.GeluForward({.x = stash.hidden, .y = work.activated, .elements = rows * F}));
  RETURN_IF_ERROR(Linear(ops, shape, work.activated, p.contract_weight, p.contract_bias, output, F, C));
  return ops.Add({.a = output, .b = stash.residual, .c = output, .elements = rows * C});
}

absl::Status LayerBackward(Ops& ops, const PassShape& shape, const LayerTensors& p, const LayerTensors& g,
                           const Slice& input, const Slice& output_gradient, const Slice& input_gradient,
                           const LayerStash& stash, const Workspace& work) {
  const int64_t C = shape.config.hidden, F = shape.config.feed_forward, rows = shape.rows();
  // MLP. GELU's output and the normed inputs are made again: cheap beside keeping them.
  RETURN_IF_ERROR(ops.GeluForward({.x = stash.hidden, .y = work.activated, .elements = rows * F}));
  RETURN_IF_ERROR(LinearBackward(ops, shape, work.activated, p.contract_weight, output_gradient, work.hidden_gradient,
                                 g.contract_weight, g.contract_bias, F, C));
  RETURN_IF_ERROR(ops.GeluBackward(
      {.x = stash.hidden, .dy = work.hidden_gradient, .dx = work.hidden_gradient, .elements = rows * F}));
  RETURN_IF_ERROR(
      Norm(ops, shape, stash.residual, p.norm2_weight, p.norm2_bias, stash.mean2, stash.rstd2, work.normed));
  RETURN_IF_ERROR(LinearBackward(ops, shape, work.normed, p.expand_weight, work.hidden_gradient, work.normed_gradient,
                                 g.expand_weight, g.expand_bias, C, F));
  RETURN_IF_ERROR(ops.LayerNormBackward(
      {.dy = work.normed_gradient, .x = stash.residual, .gamma = p.norm2_weight, .mean = stash.mean2,
       .rstd = stash.rstd2, .dx = work.normed, .dgamma = g.norm2_weight, .dbeta = g.norm2_bias, .rows = rows,
       .columns = C}));
  RETURN_IF_ERROR(ops.Add({.a = work.normed, .b = output_gradient, .c = input_gradient, .elements = rows * C}));
  // Attention. input_gradient now holds the gradient of the residual stream between the two halves.
  RETURN_IF_ERROR(LinearBackward(ops, shape, stash.attention, p.projection_weight, input_gradient, work.normed_gradient,
                                 g.projection_weight, g.projection_bias, C, C));
  RETURN_IF_ERROR(ops.AttentionBackward(
      {.qkv = stash.qkv, .out = stash.attention, .log_sum_exp = stash.log_sum_exp, .dout = work.normed_gradient,
       .dqkv = work.qkv_gradient, .batch = shape.batch, .sequence = shape.sequence, .heads = shape.config.heads,
       .head_size = C / shape.config.heads, .precision = shape.precision}));
  RETURN_IF_ERROR(Norm(ops, shape, input, p.norm1_weight, p.norm1_bias, stash.mean1, stash.rstd1, work.normed));
  RETURN_IF_ERROR(LinearBackward(ops, shape, work.normed, p.qkv_weight, work.qkv_gradient, work.normed_gradient,
                                 g.qkv_weight, g.qkv_bias, C, 3 * C));
  return ops.LayerNormBackward(
      {.dy = work.normed_gradient, .x = input, .gamma = p.norm1_weight, .mean = stash.mean1, .rstd = stash.rstd1,
       .dx = input_gradient, .dgamma = g.norm1_weight, .dbeta = g.norm1_bias, .rows = rows, .columns = C,
       .store_dx = Store::kAdd});
}

}  // namespace medley
