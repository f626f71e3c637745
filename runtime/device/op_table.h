#pragma once
#include <cstdint>

#include "runtime/device/ops.h"

// The arguments of every op, field by field: the one table from which follow the slices of an op and their
// use (op_slices.h), what is checked of its arguments (kernels/arguments), how its arguments are written and
// read (runtime/engine/align), and how far its outputs may be from the exact result.
//
// VisitFields(args, visitor) calls, once for each field of `args` and in the order of ops.h:
//   visitor.Operand(name, slice, elements, use)   a tensor; elements() is how many the shape needs, and may
//                                                 only be asked when no size is negative or absurd
//   visitor.Size(name, int64)                     a count; visitor.Step(name, int64) a count from 1
//   visitor.Index(name, int64)                    where something begins, from 0
//   visitor.Number(name, float)
//   visitor.Choice(name, enum, names)             names[i] is what the i-th enumerator is called
//   visitor.Ranges(name, span)                    of AdamW
namespace medley {

// Passes over every field; who wants some of them derives from it.
struct IgnoringVisitor {
  template <typename Elements, typename Use>
  void Operand(const char*, Slice&, const Elements&, const Use&) {}
  void Size(const char*, int64_t&) {}
  void Step(const char*, int64_t&) {}
  void Index(const char*, int64_t&) {}
  void Number(const char*, float&) {}
  template <typename Enum, size_t N>
  void Choice(const char*, Enum&, const char* const (&)[N]) {}
  void Ranges(const char*, absl::Span<const AdamWRange>&) {}
};

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: reads, then writes (+=, in place)

// What an output element goes through between the inputs, of any size and sign, and itself.
enum class Arithmetic : uint8_t {
  kExact,      // one rounding, or a fixed sequence of them
  kPointwise,  // a few roundings and at most one exponential
  kSum,        // a sum of up to some thousand products
  kChain,      // sums of exponentials of sums: softmax, attention, normalisation, and gradients through them
};

// How an op uses an operand.
struct OperandUse {
  Access access = Access::kRead;
  Arithmetic arithmetic = Arithmetic::kExact;  // of what it writes
  Dtype dtype = Dtype::kF32;
  bool optional = false;  // may be empty
  bool typed = false;     // stored as the slice says: IsActivationType
};

inline constexpr OperandUse kReadOperand{};
inline constexpr OperandUse kReadIfGiven{.optional = true};
inline constexpr OperandUse kReadIds{.dtype = Dtype::kI32};
constexpr OperandUse Written(Arithmetic arithmetic) { return {Access::kWrite, arithmetic}; }
// Adds to what is there.
constexpr OperandUse AddedTo(Arithmetic arithmetic) { return {Access::kUpdate, arithmetic}; }
constexpr OperandUse WrittenAs(Store store, Arithmetic arithmetic) {
  return store == Store::kAdd ? AddedTo(arithmetic) : Written(arithmetic);
}
constexpr OperandUse IfGiven(OperandUse use) {
  use.optional = true;
  return use;
}
constexpr OperandUse OfType(Dtype dtype, OperandUse use) {
  use.dtype = dtype;
  return use;
}

// An activation, the gradient of one, or what a product is made of.
inline OperandUse Typed(const Slice& slice, OperandUse use) {
  use.dtype = slice.dtype;
  use.typed = true;
  return use;
}

inline constexpr const char* kNoYes[] = {"no", "yes"};
inline constexpr const char* kStoreNames[] = {"overwrite", "add"};
inline constexpr const char* kPrecisionNames[] = {"f32", "bf16", "f16"};
inline constexpr const char* kConstnessNames[] = {"varies", "parameter"};
inline constexpr const char* kEpilogueNames[] = {"none", "gelu", "gelu_gradient"};
inline constexpr const char* kRotationNames[] = {"forward", "backward"};
inline constexpr const char* kDtypeNames[] = {"f32", "f64", "bf16", "i32", "f16"};

template <typename Visitor>
void VisitFields(MatmulArgs& args, Visitor& visitor) {
  const auto product = [&] { return args.m * args.n; };
  visitor.Operand(
      "a", args.a, [&] { return args.m * args.k; }, Typed(args.a, kReadOperand));
  visitor.Operand(
      "b", args.b, [&] { return args.k * args.n; }, Typed(args.b, kReadOperand));
  visitor.Operand("c", args.c, product, Typed(args.c, WrittenAs(args.store, Arithmetic::kSum)));
  visitor.Size("m", args.m);
  visitor.Size("n", args.n);
  visitor.Size("k", args.k);
  visitor.Choice("transpose_a", args.transpose_a, kNoYes);
  visitor.Choice("transpose_b", args.transpose_b, kNoYes);
  visitor.Operand(
      "bias", args.bias, [&] { return args.n; }, kReadIfGiven);
  visitor.Choice("store", args.store, kStoreNames);
  visitor.Choice("precision", args.precision, kPrecisionNames);
  visitor.Choice("b_constness", args.b_constness, kConstnessNames);
  visitor.Choice("epilogue", args.epilogue, kEpilogueNames);
  const OperandUse use = args.epilogue == Epilogue::kGelu ? Written(Arithmetic::kSum) : kReadOperand;
  visitor.Operand("pre_activation", args.pre_activation, product,
                  Typed(args.pre_activation, args.epilogue == Epilogue::kNone ? IfGiven(use) : use));
}

template <typename Visitor>
void VisitFields(LayerNormForwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.rows * args.columns; };
  const auto rows = [&] { return args.rows; };
  const auto columns = [&] { return args.columns; };
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("gamma", args.gamma, columns, kReadOperand);
  visitor.Operand("beta", args.beta, columns, kReadOperand);
  visitor.Operand("y", args.y, elements, Typed(args.y, Written(Arithmetic::kChain)));
  visitor.Operand("mean", args.mean, rows, Written(Arithmetic::kSum));
  visitor.Operand("rstd", args.rstd, rows, Written(Arithmetic::kSum));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Number("epsilon", args.epsilon);
}

template <typename Visitor>
void VisitFields(LayerNormBackwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.rows * args.columns; };
  const auto rows = [&] { return args.rows; };
  const auto columns = [&] { return args.columns; };
  visitor.Operand("dy", args.dy, elements, Typed(args.dy, kReadOperand));
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("gamma", args.gamma, columns, kReadOperand);
  visitor.Operand("mean", args.mean, rows, kReadOperand);
  visitor.Operand("rstd", args.rstd, rows, kReadOperand);
  visitor.Operand("dx", args.dx, elements, Typed(args.dx, WrittenAs(args.store_dx, Arithmetic::kChain)));
  visitor.Operand("dgamma", args.dgamma, columns, AddedTo(Arithmetic::kChain));
  visitor.Operand("dbeta", args.dbeta, columns, AddedTo(Arithmetic::kSum));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Choice("store_dx", args.store_dx, kStoreNames);
}

template <typename Visitor>
void VisitFields(RmsNormForwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.rows * args.columns; };
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand(
      "gamma", args.gamma, [&] { return args.columns; }, kReadOperand);
  visitor.Operand("y", args.y, elements, Typed(args.y, Written(Arithmetic::kChain)));
  visitor.Operand(
      "rstd", args.rstd, [&] { return args.rows; }, Written(Arithmetic::kSum));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Number("epsilon", args.epsilon);
}

template <typename Visitor>
void VisitFields(RmsNormBackwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.rows * args.columns; };
  const auto columns = [&] { return args.columns; };
  visitor.Operand("dy", args.dy, elements, Typed(args.dy, kReadOperand));
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("gamma", args.gamma, columns, kReadOperand);
  visitor.Operand(
      "rstd", args.rstd, [&] { return args.rows; }, kReadOperand);
  visitor.Operand("dx", args.dx, elements, Typed(args.dx, WrittenAs(args.store_dx, Arithmetic::kChain)));
  visitor.Operand("dgamma", args.dgamma, columns, AddedTo(Arithmetic::kChain));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Choice("store_dx", args.store_dx, kStoreNames);
}

template <typename Visitor>
void VisitFields(RotaryArgs& args, Visitor& visitor) {
  const auto angles = [&] { return args.batch == 0 ? 0 : args.sequence * (args.head_size / 2); };
  visitor.Operand(
      "x", args.x, [&] { return args.batch * args.sequence * args.row_heads * args.head_size; },
      Typed(args.x, AddedTo(Arithmetic::kPointwise)));
  visitor.Operand("cosine", args.cosine, angles, kReadOperand);
  visitor.Operand("sine", args.sine, angles, kReadOperand);
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("rotated_heads", args.rotated_heads);
  visitor.Size("row_heads", args.row_heads);
  visitor.Size("head_size", args.head_size);
  visitor.Choice("rotation", args.rotation, kRotationNames);
}

// 1 + tanh cancels for inputs far below zero, 1 - sigmoid for those far above: a chain.
template <typename Visitor>
void VisitFields(GeluForwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.elements; };
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("y", args.y, elements, Typed(args.y, Written(Arithmetic::kChain)));
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(GeluBackwardArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.elements; };
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("dy", args.dy, elements, Typed(args.dy, kReadOperand));
  visitor.Operand("dx", args.dx, elements, Typed(args.dx, Written(Arithmetic::kChain)));
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(SwiGluForwardArgs& args, Visitor& visitor) {
  visitor.Operand(
      "x", args.x, [&] { return 2 * args.rows * args.columns; }, Typed(args.x, kReadOperand));
  visitor.Operand(
      "y", args.y, [&] { return args.rows * args.columns; }, Typed(args.y, Written(Arithmetic::kChain)));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(SwiGluBackwardArgs& args, Visitor& visitor) {
  const auto both = [&] { return 2 * args.rows * args.columns; };
  visitor.Operand("x", args.x, both, Typed(args.x, kReadOperand));
  visitor.Operand(
      "dy", args.dy, [&] { return args.rows * args.columns; }, Typed(args.dy, kReadOperand));
  visitor.Operand("dx", args.dx, both, Typed(args.dx, Written(Arithmetic::kChain)));
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

// Elements of attention's tensors.
template <typename Args>
struct AttentionElements {
  const Args& args;
  int64_t rows() const { return args.batch * args.sequence * args.heads; }
  int64_t output() const { return rows() * args.head_size; }
  int64_t joined() const {
    return args.batch * args.sequence * (args.heads + 2 * args.key_value_heads) * args.head_size;
  }
};

template <typename Visitor>
void VisitFields(AttentionForwardArgs& args, Visitor& visitor) {
  const AttentionElements<AttentionForwardArgs> elements{args};
  visitor.Operand(
      "qkv", args.qkv, [&] { return elements.joined(); }, Typed(args.qkv, kReadOperand));
  visitor.Operand(
      "out", args.out, [&] { return elements.output(); }, Typed(args.out, Written(Arithmetic::kChain)));
  visitor.Operand(
      "log_sum_exp", args.log_sum_exp, [&] { return elements.rows(); }, Written(Arithmetic::kChain));
  VisitAttentionShape(args, visitor);
}

template <typename Visitor>
void VisitFields(AttentionBackwardArgs& args, Visitor& visitor) {
  const AttentionElements<AttentionBackwardArgs> elements{args};
  const auto joined = [&] { return elements.joined(); };
  const auto output = [&] { return elements.output(); };
  visitor.Operand("qkv", args.qkv, joined, Typed(args.qkv, kReadOperand));
  visitor.Operand("out", args.out, output, Typed(args.out, kReadOperand));
  visitor.Operand(
      "log_sum_exp", args.log_sum_exp, [&] { return elements.rows(); }, kReadOperand);
  visitor.Operand("dout", args.dout, output, Typed(args.dout, kReadOperand));
  visitor.Operand("dqkv", args.dqkv, joined, Typed(args.dqkv, Written(Arithmetic::kChain)));
  VisitAttentionShape(args, visitor);
}

// The ids choose which rows of a table are used: all of it counts as read or updated.
template <typename Visitor>
void VisitFields(EmbeddingForwardArgs& args, Visitor& visitor) {
  const auto tokens = [&] { return args.batch * args.sequence; };
  visitor.Operand("tokens", args.tokens, tokens, kReadIds);
  visitor.Operand(
      "token_embedding", args.token_embedding,
      [&] { return tokens() == 0 ? 0 : args.vocabulary * args.columns; }, kReadOperand);
  visitor.Operand(
      "position_embedding", args.position_embedding,
      [&] { return args.batch == 0 ? 0 : args.sequence * args.columns; }, kReadIfGiven);
  visitor.Operand(
      "y", args.y, [&] { return tokens() * args.columns; }, Typed(args.y, Written(Arithmetic::kExact)));
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("columns", args.columns);
  visitor.Index("first_token", args.first_token);
  visitor.Size("vocabulary", args.vocabulary);
}

template <typename Visitor>
void VisitFields(EmbeddingBackwardArgs& args, Visitor& visitor) {
  const auto tokens = [&] { return args.batch * args.sequence; };
  visitor.Operand("tokens", args.tokens, tokens, kReadIds);
  visitor.Operand(
      "dy", args.dy, [&] { return tokens() * args.columns; }, Typed(args.dy, kReadOperand));
  visitor.Operand(
      "d_token_embedding", args.d_token_embedding,
      [&] { return tokens() == 0 ? 0 : args.vocabulary * args.columns; }, AddedTo(Arithmetic::kExact));
  visitor.Operand(
      "d_position_embedding", args.d_position_embedding,
      [&] { return args.batch == 0 ? 0 : args.sequence * args.columns; },
      IfGiven(AddedTo(Arithmetic::kExact)));
  visitor.Size("batch", args.batch);
  visitor.Size("sequence", args.sequence);
  visitor.Size("columns", args.columns);
  visitor.Index("first_token", args.first_token);
  visitor.Size("vocabulary", args.vocabulary);
}

// What each op of a head reads: activations, its part of the vocabulary, and the targets.
template <typename Args, typename Visitor>
void VisitHeadInputs(Args& args, Visitor& visitor) {
  visitor.Operand(
      "x", args.x, [&] { return args.rows * args.columns; }, Typed(args.x, kReadOperand));
  visitor.Operand(
      "weight", args.weight, [&] { return args.rows == 0 ? 0 : args.vocabulary * args.columns; },
      kReadOperand);
  visitor.Operand(
      "targets", args.targets, [&] { return args.rows; }, kReadIds);
}

template <typename Visitor>
void VisitFields(HeadLossArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.rows * args.columns; };
  const auto weights = [&] { return args.rows == 0 ? 0 : args.vocabulary * args.columns; };
  VisitHeadInputs(args, visitor);
  visitor.Operand(
      "loss_sum", args.loss_sum, [] { return int64_t{1}; }, OfType(Dtype::kF64, AddedTo(Arithmetic::kChain)));
  visitor.Operand("dx", args.dx, elements, Typed(args.dx, IfGiven(Written(Arithmetic::kChain))));
  visitor.Operand("dweight", args.dweight, weights, IfGiven(AddedTo(Arithmetic::kChain)));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Size("vocabulary", args.vocabulary);
  visitor.Number("gradient_scale", args.gradient_scale);
  visitor.Choice("precision", args.precision, kPrecisionNames);
}

template <typename Visitor>
void VisitFields(HeadStatisticsArgs& args, Visitor& visitor) {
  const auto rows = [&] { return args.rows; };
  VisitHeadInputs(args, visitor);
  visitor.Operand("log_sum_exp", args.log_sum_exp, rows, Written(Arithmetic::kChain));
  visitor.Operand("target_logit", args.target_logit, rows, Written(Arithmetic::kSum));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Index("first_token", args.first_token);
  visitor.Size("vocabulary", args.vocabulary);
  visitor.Choice("precision", args.precision, kPrecisionNames);
}

template <typename Visitor>
void VisitFields(JoinHeadStatisticsArgs& args, Visitor& visitor) {
  visitor.Operand(
      "statistics", args.statistics, [&] { return (args.members + 1) * args.rows; }, kReadOperand);
  visitor.Operand(
      "log_sum_exp", args.log_sum_exp, [&] { return args.rows; }, Written(Arithmetic::kChain));
  visitor.Operand(
      "loss_sum", args.loss_sum, [] { return int64_t{1}; },
      OfType(Dtype::kF64, IfGiven(AddedTo(Arithmetic::kChain))));
  visitor.Size("members", args.members);
  visitor.Size("rows", args.rows);
}

template <typename Visitor>
void VisitFields(HeadGradientArgs& args, Visitor& visitor) {
  VisitHeadInputs(args, visitor);
  visitor.Operand(
      "log_sum_exp", args.log_sum_exp, [&] { return args.rows; }, kReadOperand);
  visitor.Operand(
      "dx", args.dx, [&] { return args.rows * args.columns; }, Typed(args.dx, Written(Arithmetic::kChain)));
  visitor.Operand(
      "dweight", args.dweight, [&] { return args.rows == 0 ? 0 : args.vocabulary * args.columns; },
      AddedTo(Arithmetic::kChain));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
  visitor.Index("first_token", args.first_token);
  visitor.Size("vocabulary", args.vocabulary);
  visitor.Number("gradient_scale", args.gradient_scale);
  visitor.Choice("precision", args.precision, kPrecisionNames);
}

template <typename Visitor>
void VisitFields(AddArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.elements; };
  visitor.Operand("a", args.a, elements, Typed(args.a, kReadOperand));
  visitor.Operand("b", args.b, elements, Typed(args.b, kReadOperand));
  visitor.Operand("c", args.c, elements, Typed(args.c, Written(Arithmetic::kExact)));
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(ScaleArgs& args, Visitor& visitor) {
  visitor.Operand(
      "x", args.x, [&] { return args.elements; }, Typed(args.x, AddedTo(Arithmetic::kExact)));
  visitor.Size("elements", args.elements);
  visitor.Number("factor", args.factor);
}

template <typename Visitor>
void VisitFields(CastArgs& args, Visitor& visitor) {
  const auto elements = [&] { return args.elements; };
  visitor.Operand("x", args.x, elements, Typed(args.x, kReadOperand));
  visitor.Operand("y", args.y, elements, Typed(args.y, Written(Arithmetic::kExact)));
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(SumRowsArgs& args, Visitor& visitor) {
  visitor.Operand(
      "x", args.x, [&] { return args.rows * args.columns; }, Typed(args.x, kReadOperand));
  visitor.Operand(
      "out", args.out, [&] { return args.columns; }, AddedTo(Arithmetic::kSum));
  visitor.Size("rows", args.rows);
  visitor.Size("columns", args.columns);
}

template <typename Visitor>
void VisitFields(AdamWArgs& args, Visitor& visitor) {
  const auto end = [&] {
    return args.ranges.empty() ? 0 : args.ranges.back().first + args.ranges.back().elements;
  };
  visitor.Operand("parameter", args.parameter, end, AddedTo(Arithmetic::kExact));
  visitor.Operand("gradient", args.gradient, end, kReadOperand);
  visitor.Operand("m", args.m, end, AddedTo(Arithmetic::kExact));
  visitor.Operand("v", args.v, end, AddedTo(Arithmetic::kExact));
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
  visitor.Operand(
      "x", args.x, [&] { return args.elements; }, kReadOperand);
  // Summed in f64, in an order of the device's own.
  visitor.Operand(
      "out", args.out, [] { return int64_t{1}; }, OfType(Dtype::kF64, Written(Arithmetic::kPointwise)));
  visitor.Size("elements", args.elements);
}

template <typename Visitor>
void VisitFields(FillArgs& args, Visitor& visitor) {
  visitor.Operand(
      "x", args.x, [&] { return args.elements; }, Typed(args.x, Written(Arithmetic::kExact)));
  visitor.Size("elements", args.elements);
  visitor.Number("value", args.value);
}

}  // namespace medley
