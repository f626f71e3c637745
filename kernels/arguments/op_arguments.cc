#include "kernels/arguments/op_arguments.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {
namespace {

absl::Status Invalid(OpKind op, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(NameOf(op), ": ", what));
}

absl::Status CheckSlice(OpKind op, const OpSlice& operand) {
  const Slice& slice = *operand.slice;
  const int64_t element_bytes = SizeOf(operand.dtype).value;
  // Ids and f64 sums are what they are, whatever the slice says.
  const bool can_be = operand.typed ? IsActivationType(slice.dtype)
                                    : operand.dtype != Dtype::kF32 || slice.dtype == Dtype::kF32;
  if (!can_be) {
    return Invalid(op, absl::StrCat(operand.name, " is ", std::string(NameOf(slice.dtype)), ", must be f32",
                                    operand.typed ? ", bf16 or f16" : ""));
  }
  if (slice.buffer == nullptr) {
    if (operand.elements == 0) return absl::OkStatus();
    return Invalid(op, absl::StrCat(operand.name, " has no buffer"));
  }
  if (slice.offset_bytes < 0 || slice.elements < 0 || slice.offset_bytes % element_bytes != 0) {
    return Invalid(op, absl::StrCat(operand.name, " starts at byte ", slice.offset_bytes, " with ",
                                    slice.elements, " elements; the offset must be a multiple of ",
                                    element_bytes, ", neither negative"));
  }
  if (slice.elements < operand.elements) {
    return absl::OutOfRangeError(absl::StrCat(NameOf(op), ": ", operand.name, " has ", slice.elements,
                                              " elements, the shape needs ", operand.elements));
  }
  // Divides instead of multiplying, which could overflow for absurd sizes.
  const int64_t size_bytes = slice.buffer->size().value;
  if (slice.offset_bytes > size_bytes || slice.elements > (size_bytes - slice.offset_bytes) / element_bytes) {
    return absl::OutOfRangeError(absl::StrCat(
        NameOf(op), ": ", operand.name, " is ", slice.elements, " elements of ", element_bytes, " B at byte ",
        slice.offset_bytes, ", past the end of its buffer of ", size_bytes, " B"));
  }
  return absl::OkStatus();
}

// What an op demands beyond sizes and slices.
template <typename Args>
absl::Status CheckMore(const Args& args) {
  return absl::OkStatus();
}

absl::Status CheckMore(const MatmulArgs& args) {
  if (args.epilogue != Epilogue::kNone && args.store == Store::kAdd) {
    return Invalid(KindOf(args), "an epilogue needs Store::kOverwrite");
  }
  return absl::OkStatus();
}

absl::Status CheckMore(const RotaryArgs& args) {
  if (args.head_size % 2 != 0)
    return Invalid(KindOf(args), absl::StrCat("head_size is ", args.head_size, ", must be even"));
  if (args.rotated_heads > args.row_heads) {
    return Invalid(KindOf(args), absl::StrCat("rotated_heads is ", args.rotated_heads,
                                              ", must be at most row_heads, ", args.row_heads));
  }
  return absl::OkStatus();
}

template <typename Args>
absl::Status CheckHeads(const Args& args) {
  if (args.heads == 0 ? args.key_value_heads == 0
                      : args.key_value_heads > 0 && args.heads % args.key_value_heads == 0) {
    return absl::OkStatus();
  }
  return Invalid(KindOf(args), absl::StrCat("key_value_heads is ", args.key_value_heads,
                                            ", must divide heads, ", args.heads));
}
absl::Status CheckMore(const AttentionForwardArgs& args) { return CheckHeads(args); }
absl::Status CheckMore(const AttentionBackwardArgs& args) { return CheckHeads(args); }

// Who looks up tokens has some of the vocabulary.
template <typename Args>
absl::Status CheckVocabulary(const Args& args, bool has_tokens) {
  if (!has_tokens || args.vocabulary > 0) return absl::OkStatus();
  return Invalid(KindOf(args), "vocabulary is 0, must be 1 or more");
}
absl::Status CheckMore(const EmbeddingForwardArgs& args) {
  return CheckVocabulary(args, args.batch > 0 && args.sequence > 0);
}
absl::Status CheckMore(const EmbeddingBackwardArgs& args) {
  return CheckVocabulary(args, args.batch > 0 && args.sequence > 0);
}

absl::Status CheckMore(const HeadLossArgs& args) {
  RETURN_IF_ERROR(CheckVocabulary(args, args.rows > 0));
  if (args.dx.empty() != args.dweight.empty()) {
    return Invalid(KindOf(args), "dx and dweight must be both given or both empty");
  }
  return absl::OkStatus();
}

absl::Status CheckMore(const HeadStatisticsArgs& args) { return CheckVocabulary(args, args.rows > 0); }
absl::Status CheckMore(const HeadGradientArgs& args) { return CheckVocabulary(args, args.rows > 0); }

absl::Status CheckMore(const JoinHeadStatisticsArgs& args) {
  if (args.rows == 0 || args.members > 0) return absl::OkStatus();
  return Invalid(KindOf(args), "members is 0, must be 1 or more");
}

absl::Status CheckMore(const AdamWArgs& args) {
  if (args.step < 1) return Invalid(KindOf(args), absl::StrCat("step is ", args.step, ", must be 1 or more"));
  int64_t end = 0;
  for (const AdamWRange& range : args.ranges) {
    if (range.first < end || range.elements < 0) {
      return Invalid(KindOf(args), absl::StrCat("a range of ", range.elements, " elements from ", range.first,
                                                " follows one that ends at ", end,
                                                "; ranges must ascend, not overlap, not be negative"));
    }
    end = range.first + range.elements;
  }
  return absl::OkStatus();
}

// The first size or index that is negative.
struct SizeCheck : IgnoringVisitor {
  const char* name = nullptr;
  int64_t value = 0;
  void Size(const char* size, int64_t& of_size) {
    if (name != nullptr || of_size >= 0) return;
    name = size;
    value = of_size;
  }
  void Index(const char* index, int64_t& of_index) { Size(index, of_index); }
};

// A cast is how a narrow tensor becomes an f32 one; two narrow types have that between them.
template <typename Args>
bool TakenByAll(const Args& args) {
  return false;
}
bool TakenByAll(const CastArgs& args) {
  return args.x.dtype == args.y.dtype || args.x.dtype == Dtype::kF32 || args.y.dtype == Dtype::kF32;
}

enum class Types { kAny, kF32Alone };

template <typename Args>
absl::Status Check(Args args, Types types) {
  SizeCheck sizes;
  VisitFields(args, sizes);
  if (sizes.name != nullptr)
    return Invalid(KindOf(args), absl::StrCat(sizes.name, " is ", sizes.value, ", must be 0 or more"));
  RETURN_IF_ERROR(CheckMore(args));
  const OpSlices slices = SlicesOf(args);
  for (const OpSlice& slice : slices) RETURN_IF_ERROR(CheckSlice(KindOf(args), slice));
  if (types == Types::kAny || TakenByAll(args) || !HasNarrow(slices)) return absl::OkStatus();
  return absl::UnimplementedError("takes f32 tensors alone");
}

}  // namespace

#define MEDLEY_DEFINE_CHECK(name)                                                               \
  absl::Status CheckTypedArguments(const name##Args& args) { return Check(args, Types::kAny); } \
  absl::Status CheckArguments(const name##Args& args) { return Check(args, Types::kF32Alone); }
MEDLEY_EACH_OP(MEDLEY_DEFINE_CHECK)
#undef MEDLEY_DEFINE_CHECK

}  // namespace medley
