#include "kernels/arguments/op_arguments.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

struct Size {
  const char* name;
  int64_t value;
};

struct Operand {
  const char* name;
  const Slice& slice;
  int64_t needed;  // elements
  int64_t element_bytes = 4;
};

absl::Status CheckOperand(const char* op, const Operand& operand) {
  const Slice& slice = operand.slice;
  if (slice.buffer == nullptr) {
    if (operand.needed == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(op, ": ", operand.name, " has no buffer"));
  }
  if (slice.offset_bytes < 0 || slice.elements < 0 || slice.offset_bytes % operand.element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", operand.name, " starts at byte ", slice.offset_bytes, " with ", slice.elements,
        " elements; the offset must be a multiple of ", operand.element_bytes, ", neither negative"));
  }
  if (slice.elements < operand.needed) {
    return absl::OutOfRangeError(absl::StrCat(op, ": ", operand.name, " has ", slice.elements,
                                              " elements, the shape needs ", operand.needed));
  }
  // Divides instead of multiplying, which could overflow for absurd sizes.
  const int64_t size_bytes = slice.buffer->size().value;
  if (slice.offset_bytes > size_bytes ||
      slice.elements > (size_bytes - slice.offset_bytes) / operand.element_bytes) {
    return absl::OutOfRangeError(absl::StrCat(op, ": ", operand.name, " is ", slice.elements, " elements of ",
                                              operand.element_bytes, " B at byte ", slice.offset_bytes,
                                              ", past the end of its buffer of ", size_bytes, " B"));
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const char* op, std::initializer_list<Size> sizes) {
  for (const Size& size : sizes) {
    if (size.value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(op, ": ", size.name, " is ", size.value, ", must be 0 or more"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const char* op, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) RETURN_IF_ERROR(CheckOperand(op, operand));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArguments(const MatmulArgs& args) {
  const char* op = "Matmul";
  RETURN_IF_ERROR(CheckSizes(op, {{"m", args.m}, {"n", args.n}, {"k", args.k}}));
  if (!args.bias.empty()) RETURN_IF_ERROR(CheckOperand(op, {"bias", args.bias, args.n}));
  return CheckOperands(
      op, {{"a", args.a, args.m * args.k}, {"b", args.b, args.k * args.n}, {"c", args.c, args.m * args.n}});
}

absl::Status CheckArguments(const LayerNormForwardArgs& args) {
  const char* op = "LayerNormForward";
  RETURN_IF_ERROR(CheckSizes(op, {{"rows", args.rows}, {"columns", args.columns}}));
  const int64_t elements = args.rows * args.columns;
  return CheckOperands(op, {{"x", args.x, elements},
                            {"gamma", args.gamma, args.columns},
                            {"beta", args.beta, args.columns},
                            {"y", args.y, elements},
                            {"mean", args.mean, args.rows},
                            {"rstd", args.rstd, args.rows}});
}

absl::Status CheckArguments(const LayerNormBackwardArgs& args) {
  const char* op = "LayerNormBackward";
  RETURN_IF_ERROR(CheckSizes(op, {{"rows", args.rows}, {"columns", args.columns}}));
  const int64_t elements = args.rows * args.columns;
  return CheckOperands(op, {{"dy", args.dy, elements},
                            {"x", args.x, elements},
                            {"gamma", args.gamma, args.columns},
                            {"mean", args.mean, args.rows},
                            {"rstd", args.rstd, args.rows},
                            {"dx", args.dx, elements},
                            {"dgamma", args.dgamma, args.columns},
                            {"dbeta", args.dbeta, args.columns}});
}

absl::Status CheckArguments(const GeluForwardArgs& args) {
  RETURN_IF_ERROR(CheckSizes("GeluForward", {{"elements", args.elements}}));
  return CheckOperands("GeluForward", {{"x", args.x, args.elements}, {"y", args.y, args.elements}});
}

absl::Status CheckArguments(const GeluBackwardArgs& args) {
  RETURN_IF_ERROR(CheckSizes("GeluBackward", {{"elements", args.elements}}));
  return CheckOperands(
      "GeluBackward",
      {{"x", args.x, args.elements}, {"dy", args.dy, args.elements}, {"dx", args.dx, args.elements}});
}

absl::Status CheckArguments(const AttentionForwardArgs& args) {
  const char* op = "AttentionForward";
  RETURN_IF_ERROR(CheckSizes(op, {{"batch", args.batch},
                                  {"sequence", args.sequence},
                                  {"heads", args.heads},
                                  {"head_size", args.head_size}}));
  const int64_t rows = args.batch * args.heads * args.sequence;
  const int64_t elements = rows * args.head_size;
  return CheckOperands(op, {{"qkv", args.qkv, 3 * elements},
                            {"out", args.out, elements},
                            {"log_sum_exp", args.log_sum_exp, rows}});
}

absl::Status CheckArguments(const AttentionBackwardArgs& args) {
  const char* op = "AttentionBackward";
  RETURN_IF_ERROR(CheckSizes(op, {{"batch", args.batch},
                                  {"sequence", args.sequence},
                                  {"heads", args.heads},
                                  {"head_size", args.head_size}}));
  const int64_t rows = args.batch * args.heads * args.sequence;
  const int64_t elements = rows * args.head_size;
  return CheckOperands(op, {{"qkv", args.qkv, 3 * elements},
                            {"out", args.out, elements},
                            {"log_sum_exp", args.log_sum_exp, rows},
                            {"dout", args.dout, elements},
                            {"dqkv", args.dqkv, 3 * elements}});
}

absl::Status CheckArguments(const EmbeddingForwardArgs& args) {
  const char* op = "EmbeddingForward";
  RETURN_IF_ERROR(
      CheckSizes(op, {{"batch", args.batch}, {"sequence", args.sequence}, {"columns", args.columns}}));
  const int64_t tokens = args.batch * args.sequence;
  const int64_t positions = args.batch == 0 ? 0 : args.sequence;
  return CheckOperands(op, {{"tokens", args.tokens, tokens},
                            {"token_embedding", args.token_embedding, tokens == 0 ? 0 : args.columns},
                            {"position_embedding", args.position_embedding, positions * args.columns},
                            {"y", args.y, tokens * args.columns}});
}

absl::Status CheckArguments(const EmbeddingBackwardArgs& args) {
  const char* op = "EmbeddingBackward";
  RETURN_IF_ERROR(
      CheckSizes(op, {{"batch", args.batch}, {"sequence", args.sequence}, {"columns", args.columns}}));
  const int64_t tokens = args.batch * args.sequence;
  const int64_t positions = args.batch == 0 ? 0 : args.sequence;
  return CheckOperands(op, {{"tokens", args.tokens, tokens},
                            {"dy", args.dy, tokens * args.columns},
                            {"d_token_embedding", args.d_token_embedding, tokens == 0 ? 0 : args.columns},
                            {"d_position_embedding", args.d_position_embedding, positions * args.columns}});
}

absl::Status CheckArguments(const HeadLossArgs& args) {
  const char* op = "HeadLoss";
  RETURN_IF_ERROR(
      CheckSizes(op, {{"rows", args.rows}, {"columns", args.columns}, {"vocabulary", args.vocabulary}}));
  if (args.rows > 0 && args.vocabulary == 0) {
    return absl::InvalidArgumentError("HeadLoss: vocabulary is 0, must be 1 or more");
  }
  if (args.dx.empty() != args.dweight.empty()) {
    return absl::InvalidArgumentError("HeadLoss: dx and dweight must be both given or both empty");
  }
  const int64_t weights = args.rows == 0 ? 0 : args.vocabulary * args.columns;
  if (!args.dx.empty()) {
    RETURN_IF_ERROR(
        CheckOperands(op, {{"dx", args.dx, args.rows * args.columns}, {"dweight", args.dweight, weights}}));
  }
  return CheckOperands(op, {{"x", args.x, args.rows * args.columns},
                            {"weight", args.weight, weights},
                            {"targets", args.targets, args.rows},
                            {"loss_sum", args.loss_sum, 1, 8}});
}

absl::Status CheckArguments(const AddArgs& args) {
  RETURN_IF_ERROR(CheckSizes("Add", {{"elements", args.elements}}));
  return CheckOperands(
      "Add", {{"a", args.a, args.elements}, {"b", args.b, args.elements}, {"c", args.c, args.elements}});
}

absl::Status CheckArguments(const SumRowsArgs& args) {
  RETURN_IF_ERROR(CheckSizes("SumRows", {{"rows", args.rows}, {"columns", args.columns}}));
  return CheckOperands("SumRows", {{"x", args.x, args.rows * args.columns}, {"out", args.out, args.columns}});
}

absl::Status CheckArguments(const AdamWArgs& args) {
  const char* op = "AdamW";
  RETURN_IF_ERROR(CheckSizes(op, {{"elements", args.elements}}));
  if (args.step < 1)
    return absl::InvalidArgumentError(absl::StrCat("AdamW: step is ", args.step, ", must be 1 or more"));
  return CheckOperands(op, {{"parameter", args.parameter, args.elements},
                            {"gradient", args.gradient, args.elements},
                            {"m", args.m, args.elements},
                            {"v", args.v, args.elements}});
}

absl::Status CheckArguments(const SquaredNormArgs& args) {
  RETURN_IF_ERROR(CheckSizes("SquaredNorm", {{"elements", args.elements}}));
  return CheckOperands("SquaredNorm", {{"x", args.x, args.elements}, {"out", args.out, 1, 8}});
}

absl::Status CheckArguments(const FillArgs& args) {
  RETURN_IF_ERROR(CheckSizes("Fill", {{"elements", args.elements}}));
  return CheckOperands("Fill", {{"x", args.x, args.elements}});
}

}  // namespace medley
