#include "runtime/device/canonical_ops.h"

#include <cstring>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kBatch = 2, kSequence = 32, kRows = kBatch * kSequence;
constexpr int64_t kHeads = 4, kHeadSize = 64, kColumns = kHeads * kHeadSize;
constexpr int64_t kVocabulary = 96, kElements = 1024;

// Stands in an optional slice until it is placed: SlicesOf() leaves out what is empty.
class WantedBuffer final : public Buffer {
 public:
  Bytes size() const override { return {0}; }
  std::byte* host_address() override { return nullptr; }
};

Slice Wanted() {
  static WantedBuffer& buffer = *new WantedBuffer;
  return {&buffer, 0, 0};
}

// A form with its changes to the plain arguments.
template <typename Args, typename Change>
CanonicalOp<Args> Form(const char* form, Args args, Change change) {
  change(args);
  return {form, args};
}

template <typename Args>
std::vector<CanonicalOp<Args>> AttentionForms() {
  Args plain;
  plain.batch = kBatch;
  plain.sequence = kSequence;
  plain.heads = plain.key_value_heads = kHeads;
  plain.head_size = kHeadSize;
  return {{"", plain}, Form("grouped-query", plain, [](Args& args) { args.key_value_heads = kHeads / 2; })};
}

// Leaves tokens before and after what is there of the vocabulary.
template <typename Args>
void TakePart(Args& args) {
  args.first_token = kVocabulary / 3;
  args.vocabulary = kVocabulary / 3;
}

template <typename Args>
std::vector<CanonicalOp<Args>> RowForms() {
  Args plain;
  plain.rows = kRows;
  plain.columns = kColumns;
  return {{"", plain}};
}

template <typename Args>
std::vector<CanonicalOp<Args>> ElementForms() {
  Args plain;
  plain.elements = kElements;
  return {{"", plain}};
}

// Puts `value` as `count` elements at `at`.
template <typename T, typename Value>
void Put(std::byte* at, int64_t count, Value value) {
  for (int64_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(value(i));
    std::memcpy(at + i * sizeof(T), &element, sizeof(T));
  }
}

void PutNumbers(std::byte* at, const OpSlice& operand, int64_t count) {
  switch (operand.dtype) {
    case Dtype::kF32:
      return Put<float>(at, count, [](int64_t i) { return 0.25f + (i * 37 % 61) / 64.0f; });
    case Dtype::kBf16:
      return Put<uint16_t>(at, count, [](int64_t i) { return 0x3e80 + i * 37 % 251; });
    case Dtype::kF16:
      return Put<uint16_t>(at, count, [](int64_t i) { return 0x3400 + i * 37 % 2011; });
    case Dtype::kI32:
      return Put<int32_t>(at, count, [](int64_t i) { return i * 7 % kVocabulary; });
    case Dtype::kF64:
      return Put<double>(at, count, [](int64_t) { return 0.0; });
  }
}

absl::StatusOr<std::unique_ptr<Buffer>> Place(const OpSlices& operands, DeviceQueue& queue) {
  int64_t end_bytes = 0;
  for (const OpSlice& operand : operands) {
    *operand.slice = {nullptr, end_bytes, operand.elements, operand.slice->dtype};
    end_bytes += TensorBytes(operand.elements, operand.dtype).value;
  }
  std::vector<std::byte> image(end_bytes);
  for (const OpSlice& operand : operands) {
    PutNumbers(image.data() + operand.slice->offset_bytes, operand, operand.slice->elements);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, queue.Allocate({end_bytes}));
  RETURN_IF_ERROR(queue.Upload(image, *buffer, {0}));
  for (const OpSlice& operand : operands) operand.slice->buffer = buffer.get();
  return buffer;
}

}  // namespace

std::vector<CanonicalOp<MatmulArgs>> CanonicalMatmul() {
  const MatmulArgs plain = {.m = kRows, .n = kColumns, .k = kColumns};
  return {
      {"", plain},
      Form("b transposed", plain, [](MatmulArgs& args) { args.transpose_b = Transpose::kYes; }),
      Form("a transposed, added", plain,
           [](MatmulArgs& args) {
             args.transpose_a = Transpose::kYes;
             args.store = Store::kAdd;
           }),
      Form("bias", plain, [](MatmulArgs& args) { args.bias = Wanted(); }),
      Form("bias, GELU", plain,
           [](MatmulArgs& args) {
             args.bias = Wanted();
             args.epilogue = Epilogue::kGelu;
           }),
      Form("b transposed, GELU gradient", plain,
           [](MatmulArgs& args) {
             args.transpose_b = Transpose::kYes;
             args.epilogue = Epilogue::kGeluGradient;
           }),
  };
}

std::vector<CanonicalOp<LayerNormForwardArgs>> CanonicalLayerNormForward() {
  return RowForms<LayerNormForwardArgs>();
}
std::vector<CanonicalOp<LayerNormBackwardArgs>> CanonicalLayerNormBackward() {
  return RowForms<LayerNormBackwardArgs>();
}
std::vector<CanonicalOp<RmsNormForwardArgs>> CanonicalRmsNormForward() {
  return RowForms<RmsNormForwardArgs>();
}
std::vector<CanonicalOp<RmsNormBackwardArgs>> CanonicalRmsNormBackward() {
  return RowForms<RmsNormBackwardArgs>();
}
std::vector<CanonicalOp<SwiGluForwardArgs>> CanonicalSwiGluForward() { return RowForms<SwiGluForwardArgs>(); }
std::vector<CanonicalOp<SwiGluBackwardArgs>> CanonicalSwiGluBackward() {
  return RowForms<SwiGluBackwardArgs>();
}
std::vector<CanonicalOp<SumRowsArgs>> CanonicalSumRows() { return RowForms<SumRowsArgs>(); }

std::vector<CanonicalOp<RotaryArgs>> CanonicalRotary() {
  const RotaryArgs plain = {.batch = kBatch,
                            .sequence = kSequence,
                            .rotated_heads = kHeads,
                            .row_heads = 2 * kHeads,
                            .head_size = kHeadSize};
  return {{"", plain},
          Form("backward", plain, [](RotaryArgs& args) { args.rotation = Rotation::kBackward; })};
}

std::vector<CanonicalOp<GeluForwardArgs>> CanonicalGeluForward() { return ElementForms<GeluForwardArgs>(); }
std::vector<CanonicalOp<GeluBackwardArgs>> CanonicalGeluBackward() {
  return ElementForms<GeluBackwardArgs>();
}
std::vector<CanonicalOp<AddArgs>> CanonicalAdd() { return ElementForms<AddArgs>(); }
std::vector<CanonicalOp<SquaredNormArgs>> CanonicalSquaredNorm() { return ElementForms<SquaredNormArgs>(); }

std::vector<CanonicalOp<ScaleArgs>> CanonicalScale() {
  return {{"", {.elements = kElements, .factor = 0.75f}}};
}
std::vector<CanonicalOp<FillArgs>> CanonicalFill() { return {{"", {.elements = kElements, .value = 0.75f}}}; }
std::vector<CanonicalOp<CastArgs>> CanonicalCast() {
  const Slice bf16{.dtype = Dtype::kBf16}, f16{.dtype = Dtype::kF16};
  return {{"", {.y = bf16, .elements = kElements}},
          {"bf16 to f32", {.x = bf16, .elements = kElements}},
          {"f32 to f16", {.y = f16, .elements = kElements}},
          {"f16 to f32", {.x = f16, .elements = kElements}}};
}

std::vector<CanonicalOp<AttentionForwardArgs>> CanonicalAttentionForward() {
  return AttentionForms<AttentionForwardArgs>();
}
std::vector<CanonicalOp<AttentionBackwardArgs>> CanonicalAttentionBackward() {
  return AttentionForms<AttentionBackwardArgs>();
}

std::vector<CanonicalOp<EmbeddingForwardArgs>> CanonicalEmbeddingForward() {
  const EmbeddingForwardArgs plain = {.position_embedding = Wanted(),
                                      .batch = kBatch,
                                      .sequence = kSequence,
                                      .columns = kColumns,
                                      .vocabulary = kVocabulary};
  return {{"", plain},
          Form("no positions", plain, [](EmbeddingForwardArgs& args) { args.position_embedding = {}; }),
          Form("part of the vocabulary", plain, TakePart<EmbeddingForwardArgs>)};
}

std::vector<CanonicalOp<EmbeddingBackwardArgs>> CanonicalEmbeddingBackward() {
  const EmbeddingBackwardArgs plain = {.d_position_embedding = Wanted(),
                                       .batch = kBatch,
                                       .sequence = kSequence,
                                       .columns = kColumns,
                                       .vocabulary = kVocabulary};
  return {{"", plain},
          Form("no positions", plain, [](EmbeddingBackwardArgs& args) { args.d_position_embedding = {}; }),
          Form("part of the vocabulary", plain, TakePart<EmbeddingBackwardArgs>)};
}

std::vector<CanonicalOp<HeadLossArgs>> CanonicalHeadLoss() {
  const HeadLossArgs plain = {.dx = Wanted(),
                              .dweight = Wanted(),
                              .rows = kRows,
                              .columns = kColumns,
                              .vocabulary = kVocabulary,
                              .gradient_scale = 0.5f};
  return {{"", plain}, Form("loss only", plain, [](HeadLossArgs& args) { args.dx = args.dweight = {}; })};
}

std::vector<CanonicalOp<HeadStatisticsArgs>> CanonicalHeadStatistics() {
  const HeadStatisticsArgs plain = {.rows = kRows, .columns = kColumns, .vocabulary = kVocabulary};
  return {{"", plain}, Form("part of the vocabulary", plain, TakePart<HeadStatisticsArgs>)};
}

std::vector<CanonicalOp<JoinHeadStatisticsArgs>> CanonicalJoinHeadStatistics() {
  const JoinHeadStatisticsArgs plain = {.loss_sum = Wanted(), .members = 3, .rows = kRows};
  return {{"", plain}, Form("no loss", plain, [](JoinHeadStatisticsArgs& args) { args.loss_sum = {}; })};
}

// The numbers' logits are near 17 for so few columns, and their log_sum_exp is not that of the logits: dlogits
// of e^17 times the scale.
std::vector<CanonicalOp<HeadGradientArgs>> CanonicalHeadGradient() {
  const HeadGradientArgs plain = {
      .rows = kRows, .columns = 32, .vocabulary = kVocabulary, .gradient_scale = 0x1p-24f};
  return {{"", plain}, Form("part of the vocabulary", plain, TakePart<HeadGradientArgs>)};
}

std::vector<CanonicalOp<AdamWArgs>> CanonicalAdamW() {
  static constexpr AdamWRange kRanges[] = {{.first = 0, .elements = 512, .weight_decay = 0.1f},
                                           {.first = 544, .elements = 256, .weight_decay = 0}};
  return {{"", {.ranges = kRanges, .learning_rate = 1e-3f, .step = 2}}};
}

#define MEDLEY_PLACE(name)                                                                      \
  absl::StatusOr<std::unique_ptr<Buffer>> PlaceOperands(name##Args& args, DeviceQueue& queue) { \
    return Place(SlicesOf(args), queue);                                                        \
  }
MEDLEY_EACH_OP(MEDLEY_PLACE)
#undef MEDLEY_PLACE

}  // namespace medley
