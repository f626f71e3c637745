#pragma once
#include <variant>

#include "runtime/device/ops.h"

// The fields of every op's arguments by name, for what writes, reads or prints them all alike.
//
// VisitFields(args, visitor) calls, once for each field of `args` and in the order of ops.h:
//   visitor.Operand(name, slice)           a tensor that is always there
//   visitor.OptionalOperand(name, slice)   one that may be empty
//   visitor.Size(name, int64)              a count; visitor.Step(name, int64) a count from 1
//   visitor.Number(name, float)
//   visitor.Choice(name, enum, names)      names[i] is what the i-th enumerator is called
//   visitor.Ranges(name, span)             of AdamW
// A field that a new op or argument adds belongs here too; call_file_test counts them.
namespace medley {

// The arguments of one op, whichever it is.
#define MEDLEY_ARGS_OF(name) , name##Args
using AnyArgs = std::variant<std::monostate MEDLEY_EACH_OP(MEDLEY_ARGS_OF)>;
#undef MEDLEY_ARGS_OF

inline constexpr const char* kNoYes[] = {"no", "yes"};
inline constexpr const char* kStoreNames[] = {"overwrite", "add"};
inline constexpr const char* kPrecisionNames[] = {"f32", "bf16"};
inline constexpr const char* kConstnessNames[] = {"varies", "parameter"};
inline constexpr const char* kEpilogueNames[] = {"none", "gelu", "gelu_gradient"};
inline constexpr const char* kRotationNames[] = {"forward", "backward"};
inline constexpr const char* kDtypeNames[] = {"f32", "f64", "bf16", "i32"};

template <typename Visitor>
void VisitFields(std::monostate&, Visitor&) {}

template <typename Visitor>
void VisitFields(MatmulArgs& args, Visitor& visitor) {
  visitor.Operand("a", args.a);
  visitor.Operand("b", args.b);
  visitor.Operand("c", args.c);
  visitor.Size("m", args.m);
  visitor.Size("n", args.n);
  visitor.Size("k", args.k);
  visitor.Choice("transpose_a", args.transpose_a, kNoYes);
  visitor.Choice("transpose_b", args.transpose_b, kNoYes);
  visitor.OptionalOperand("bias", args.bias);
  visitor.Choice("store", args.store, kStoreNames);
  visitor.Choice("precision", args.precision, kPrecisionNames);
  visitor.Choice("b_constness", args.b_constness, kConstnessNames);
  visitor.Choice("epilogue", args.epilogue, kEpilogueNames);
  visitor.OptionalOperand("pre_activation", args.pre_activation);
}

template <typename Visitor>
void VisitFields(LayerNormForwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("gamma", args.gamma);
  visitor.Operand("beta", args.beta);
  visitor.Operand("y", args.y);
  visitor.Operand("mean", args.mean);
  visitor.Operand("rstd", args.rstd);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Number("epsilon", args.epsilon);
}

template <typename Visitor>
void VisitFields(LayerNormBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("dy", args.dy);
  visitor.Operand("x", args.x);
  visitor.Operand("gamma", args.gamma);
  visitor.Operand("mean", args.mean);
  visitor.Operand("rstd", args.rstd);
  visitor.Operand("dx", args.dx);
  visitor.Operand("dgamma", args.dgamma);
  visitor.Operand("dbeta", args.dbeta);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Choice("store_dx", args.store_dx, kStoreNames);
}

template <typename Visitor>
void VisitFields(RmsNormForwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("gamma", args.gamma);
  visitor.Operand("y", args.y);
  visitor.Operand("rstd", args.rstd);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Number("epsilon", args.epsilon);
}

template <typename Visitor>
void VisitFields(RmsNormBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("dy", args.dy);
  visitor.Operand("x", args.x);
  visitor.Operand("gamma", args.gamma);
  visitor.Operand("rstd", args.rstd);
  visitor.Operand("dx", args.dx);
  visitor.Operand("dgamma", args.dgamma);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Choice("store_dx", args.store_dx, kStoreNames);
}

template <typename Visitor>
void VisitFields(RotaryArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("cosine", args.cosine);
  visitor.Operand("sine", args.sine);
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("rotated_heads", args.rotated_heads);
  visitor.Size("row_heads", args.row_heads);
  visitor.Size("head_size", args.head_size);
  visitor.Choice("rotation", args.rotation, kRotationNames);
}

template <typename Visitor>
void VisitFields(GeluForwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("y", args.y);
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(GeluBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("dy", args.dy);
  visitor.Operand("dx", args.dx);
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(SwiGluForwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("y", args.y);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(SwiGluBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("dy", args.dy);
  visitor.Operand("dx", args.dx);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
}

template <typename Args, typename Visitor>
void VisitAttentionShape(Args& args, Visitor& visitor) {
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("heads", args.heads);
  visitor.Size("key_value_heads", args.key_value_heads);
  visitor.Size("head_size", args.head_size);
  visitor.Choice("precision", args.precision, kPrecisionNames);
}

template <typename Visitor>
void VisitFields(AttentionForwardArgs& args, Visitor& visitor) {
  visitor.Operand("qkv", args.qkv);
  visitor.Operand("out", args.out);
  visitor.Operand("log_sum_exp", args.log_sum_exp);
  VisitAttentionShape(args, visitor);
}

template <typename Visitor>
void VisitFields(AttentionBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("qkv", args.qkv);
  visitor.Operand("out", args.out);
  visitor.Operand("log_sum_exp", args.log_sum_exp);
  visitor.Operand("dout", args.dout);
  visitor.Operand("dqkv", args.dqkv);
  VisitAttentionShape(args, visitor);
}

template <typename Visitor>
void VisitFields(EmbeddingForwardArgs& args, Visitor& visitor) {
  visitor.Operand("tokens", args.tokens);
  visitor.Operand("token_embedding", args.token_embedding);
  visitor.OptionalOperand("position_embedding", args.position_embedding);
  visitor.Operand("y", args.y);
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(EmbeddingBackwardArgs& args, Visitor& visitor) {
  visitor.Operand("tokens", args.tokens);
  visitor.Operand("dy", args.dy);
  visitor.Operand("d_token_embedding", args.d_token_embedding);
  visitor.OptionalOperand("d_position_embedding", args.d_position_embedding);
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(HeadLossArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("weight", args.weight);
  visitor.Operand("targets", args.targets);
  visitor.Operand("loss_sum", args.loss_sum);
  visitor.OptionalOperand("dx", args.dx);
  visitor.OptionalOperand("dweight", args.dweight);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Size("vocabulary", args.vocabulary);
  visitor.Number("gradient_scale", args.gradient_scale);
  visitor.Choice("precision", args.precision, kPrecisionNames);
}

template <typename Visitor>
void VisitFields(AddArgs& args, Visitor& visitor) {
  visitor.Operand("a", args.a);
  visitor.Operand("b", args.b);
  visitor.Operand("c", args.c);
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(ScaleArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Size("elements", args.elements);
  visitor.Number("factor", args.factor);
}

template <typename Visitor>
void VisitFields(CastArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("y", args.y);
  visitor.Size("elements", args.elements);
  visitor.Choice("from", args.from, kDtypeNames);
  visitor.Choice("to", args.to, kDtypeNames);
}

template <typename Visitor>
void VisitFields(SumRowsArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("out", args.out);
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(AdamWArgs& args, Visitor& visitor) {
  visitor.Operand("parameter", args.parameter);
  visitor.Operand("gradient", args.gradient);
  visitor.Operand("m", args.m);
  visitor.Operand("v", args.v);
  visitor.Ranges("ranges", args.ranges);
  visitor.Number("learning_rate", args.learning_rate);
  visitor.Number("beta1", args.beta1);
  visitor.Number("beta2", args.beta2);
  visitor.Number("epsilon", args.epsilon);
  visitor.Number("gradient_scale", args.gradient_scale);
  visitor.Step("step", args.step);
}

template <typename Visitor>
void VisitFields(SquaredNormArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Operand("out", args.out);
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(FillArgs& args, Visitor& visitor) {
  visitor.Operand("x", args.x);
  visitor.Size("elements", args.elements);
  visitor.Number("value", args.value);
}

}  // namespace medley
