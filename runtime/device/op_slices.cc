#include "runtime/device/op_slices.h"

namespace medley {
namespace {

constexpr Access kRead = Access::kRead, kWrite = Access::kWrite, kUpdate = Access::kUpdate;

Access AccessOf(Store store) { return store == Store::kAdd ? kUpdate : kWrite; }

// `optional` slices are there only if the caller gave them.
void AppendIfGiven(OpSlices& slices, OpSlice optional) {
  if (!optional.slice->empty()) slices.push_back(optional);
}

}  // namespace

OpSlices SlicesOf(MatmulArgs& args) {
  OpSlices slices = {{"a", &args.a, args.m * args.k},
                     {"b", &args.b, args.k * args.n},
                     {"c", &args.c, args.m * args.n, AccessOf(args.store)}};
  AppendIfGiven(slices, {"bias", &args.bias, args.n});
  if (args.epilogue != Epilogue::kNone) {
    slices.push_back({"pre_activation", &args.pre_activation, args.m * args.n,
                      args.epilogue == Epilogue::kGelu ? kWrite : kRead});
  }
  return slices;
}

OpSlices SlicesOf(LayerNormForwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"x", &args.x, elements},
          {"gamma", &args.gamma, args.columns},
          {"beta", &args.beta, args.columns},
          {"y", &args.y, elements, kWrite},
          {"mean", &args.mean, args.rows, kWrite},
          {"rstd", &args.rstd, args.rows, kWrite}};
}

OpSlices SlicesOf(LayerNormBackwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"dy", &args.dy, elements},
          {"x", &args.x, elements},
          {"gamma", &args.gamma, args.columns},
          {"mean", &args.mean, args.rows},
          {"rstd", &args.rstd, args.rows},
          {"dx", &args.dx, elements, AccessOf(args.store_dx)},
          {"dgamma", &args.dgamma, args.columns, kUpdate},
          {"dbeta", &args.dbeta, args.columns, kUpdate}};
}

OpSlices SlicesOf(RmsNormForwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"x", &args.x, elements},
          {"gamma", &args.gamma, args.columns},
          {"y", &args.y, elements, kWrite},
          {"rstd", &args.rstd, args.rows, kWrite}};
}

OpSlices SlicesOf(RmsNormBackwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"dy", &args.dy, elements},
          {"x", &args.x, elements},
          {"gamma", &args.gamma, args.columns},
          {"rstd", &args.rstd, args.rows},
          {"dx", &args.dx, elements, AccessOf(args.store_dx)},
          {"dgamma", &args.dgamma, args.columns, kUpdate}};
}

OpSlices SlicesOf(RotaryArgs& args) {
  const int64_t angles = args.batch == 0 ? 0 : args.sequence * (args.head_size / 2);
  return {{"x", &args.x, args.batch * args.sequence * args.row_heads * args.head_size, kUpdate},
          {"cosine", &args.cosine, angles},
          {"sine", &args.sine, angles}};
}

OpSlices SlicesOf(GeluForwardArgs& args) {
  return {{"x", &args.x, args.elements}, {"y", &args.y, args.elements, kWrite}};
}

OpSlices SlicesOf(GeluBackwardArgs& args) {
  return {{"x", &args.x, args.elements},
          {"dy", &args.dy, args.elements},
          {"dx", &args.dx, args.elements, kWrite}};
}

OpSlices SlicesOf(SwiGluForwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"x", &args.x, 2 * elements}, {"y", &args.y, elements, kWrite}};
}

OpSlices SlicesOf(SwiGluBackwardArgs& args) {
  const int64_t elements = args.rows * args.columns;
  return {{"x", &args.x, 2 * elements}, {"dy", &args.dy, elements}, {"dx", &args.dx, 2 * elements, kWrite}};
}

OpSlices SlicesOf(AttentionForwardArgs& args) {
  const int64_t positions = args.batch * args.sequence;
  return {{"qkv", &args.qkv, positions * (args.heads + 2 * args.key_value_heads) * args.head_size},
          {"out", &args.out, positions * args.heads * args.head_size, kWrite},
          {"log_sum_exp", &args.log_sum_exp, positions * args.heads, kWrite}};
}

OpSlices SlicesOf(AttentionBackwardArgs& args) {
  const int64_t positions = args.batch * args.sequence;
  const int64_t joined = positions * (args.heads + 2 * args.key_value_heads) * args.head_size;
  return {{"qkv", &args.qkv, joined},
          {"out", &args.out, positions * args.heads * args.head_size},
          {"log_sum_exp", &args.log_sum_exp, positions * args.heads},
          {"dout", &args.dout, positions * args.heads * args.head_size},
          {"dqkv", &args.dqkv, joined, kWrite}};
}

// The ids choose which rows of an embedding are used: the whole given slice counts as read or updated, one
// row is the least.
OpSlices SlicesOf(EmbeddingForwardArgs& args) {
  const int64_t tokens = args.batch * args.sequence;
  OpSlices slices = {{"tokens", &args.tokens, tokens, kRead, Dtype::kI32},
                     {"token_embedding", &args.token_embedding, tokens == 0 ? 0 : args.columns},
                     {"y", &args.y, tokens * args.columns, kWrite}};
  AppendIfGiven(slices, {"position_embedding", &args.position_embedding,
                         args.batch == 0 ? 0 : args.sequence * args.columns});
  return slices;
}

OpSlices SlicesOf(EmbeddingBackwardArgs& args) {
  const int64_t tokens = args.batch * args.sequence;
  OpSlices slices = {{"tokens", &args.tokens, tokens, kRead, Dtype::kI32},
                     {"dy", &args.dy, tokens * args.columns},
                     {"d_token_embedding", &args.d_token_embedding, tokens == 0 ? 0 : args.columns, kUpdate}};
  AppendIfGiven(slices, {"d_position_embedding", &args.d_position_embedding,
                         args.batch == 0 ? 0 : args.sequence * args.columns, kUpdate});
  return slices;
}

OpSlices SlicesOf(HeadLossArgs& args) {
  const int64_t weights = args.rows == 0 ? 0 : args.vocabulary * args.columns;
  OpSlices slices = {{"x", &args.x, args.rows * args.columns},
                     {"weight", &args.weight, weights},
                     {"targets", &args.targets, args.rows, kRead, Dtype::kI32},
                     {"loss_sum", &args.loss_sum, 1, kUpdate, Dtype::kF64}};
  AppendIfGiven(slices, {"dx", &args.dx, args.rows * args.columns, kWrite});
  AppendIfGiven(slices, {"dweight", &args.dweight, weights, kUpdate});
  return slices;
}

OpSlices SlicesOf(AddArgs& args) {
  return {
      {"a", &args.a, args.elements}, {"b", &args.b, args.elements}, {"c", &args.c, args.elements, kWrite}};
}

OpSlices SlicesOf(ScaleArgs& args) { return {{"x", &args.x, args.elements, kUpdate}}; }

OpSlices SlicesOf(CastArgs& args) {
  return {{"x", &args.x, args.elements, kRead, args.from}, {"y", &args.y, args.elements, kWrite, args.to}};
}

OpSlices SlicesOf(SumRowsArgs& args) {
  return {{"x", &args.x, args.rows * args.columns}, {"out", &args.out, args.columns, kUpdate}};
}

OpSlices SlicesOf(AdamWArgs& args) {
  const int64_t end = args.ranges.empty() ? 0 : args.ranges.back().first + args.ranges.back().elements;
  return {{"parameter", &args.parameter, end, kUpdate},
          {"gradient", &args.gradient, end},
          {"m", &args.m, end, kUpdate},
          {"v", &args.v, end, kUpdate}};
}

OpSlices SlicesOf(SquaredNormArgs& args) {
  return {{"x", &args.x, args.elements}, {"out", &args.out, 1, kWrite, Dtype::kF64}};
}

OpSlices SlicesOf(FillArgs& args) { return {{"x", &args.x, args.elements, kWrite}}; }

}  // namespace medley
