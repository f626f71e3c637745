#include "runtime/device/converting_ops.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// A narrow tensor and its copy in scratch; operands in one place share one.
struct WideCopy {
  Slice narrow, wide;
  bool read = false, written = false;
};

using WideCopies = absl::InlinedVector<WideCopy, 6>;

// The copies of the narrow ones among `operands`, from offset 0 of no buffer yet.
WideCopies CopiesOf(const OpSlices& operands, Bytes& size) {
  WideCopies copies;
  for (const OpSlice& operand : operands) {
    const Slice& slice = *operand.slice;
    if (!operand.typed || slice.dtype == Dtype::kF32 || operand.elements == 0) continue;
    const auto same = [&](const WideCopy& copy) {
      return copy.narrow.buffer == slice.buffer && copy.narrow.offset_bytes == slice.offset_bytes;
    };
    auto copy = std::find_if(copies.begin(), copies.end(), same);
    if (copy == copies.end()) {
      copies.push_back({.narrow = {slice.buffer, slice.offset_bytes, 0, slice.dtype}});
      copy = copies.end() - 1;
    }
    copy->narrow.elements = std::max(copy->narrow.elements, operand.elements);
    copy->read |= operand.access != Access::kWrite;
    copy->written |= operand.access != Access::kRead;
  }
  for (WideCopy& copy : copies) {
    copy.wide = {nullptr, size.value, copy.narrow.elements};
    size += TensorBytes(copy.narrow.elements, Dtype::kF32);
  }
  return copies;
}

// The size along which an op falls into ops of its own kind, one after another; null: it is whole.
template <typename Args>
int64_t* CutSize(Args& args) {
  if constexpr (requires { args.batch; }) {
    return &args.batch;
  } else if constexpr (requires { args.b_constness; }) {
    if (args.transpose_a == Transpose::kNo) return &args.m;
    // By depths, which are rows of both operands: the products add up, and must not be rounded between.
    const bool adds_up =
        args.transpose_b == Transpose::kNo && args.c.dtype == Dtype::kF32 && args.epilogue == Epilogue::kNone;
    return adds_up ? &args.k : nullptr;
  } else if constexpr (requires { args.members; }) {
    return nullptr;
  } else if constexpr (requires { args.elements; }) {
    return &args.elements;
  } else if constexpr (requires { args.rows; }) {
    return &args.rows;
  } else {
    return nullptr;
  }
}

// `count` of what CutSize counts, from `first` on. An operand moves by what its elements grow by with that.
template <typename Args>
Args PartOf(const Args& args, int64_t first, int64_t count) {
  Args part = args, before = args, one = args;
  *CutSize(before) = first + 1;
  *CutSize(one) = 1;
  const OpSlices slices = SlicesOf(part), moved = SlicesOf(before), unmoved = SlicesOf(one);
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t by = moved[i].elements - unmoved[i].elements;
    *slices[i].slice = slices[i].slice->Sub(by, slices[i].slice->elements - by);
  }
  *CutSize(part) = count;
  if constexpr (requires { part.b_constness; }) {
    if (first > 0 && CutSize(part) == &part.k) {
      part.store = Store::kAdd;
      part.bias = {};
    }
  }
  return part;
}

// What is widened of `args`, in f32.
template <typename Args>
Bytes WidenedBytes(Args args) {
  Bytes size;
  CopiesOf(SlicesOf(args), size);
  return size;
}

// The most of what CutSize counts, `all`, that one part may have and take no more than `limit`; at least 1.
template <typename Args>
int64_t MostOfPart(const Args& args, int64_t all, Bytes whole, Bytes limit) {
  if (all <= 1) return 1;
  const Bytes one = WidenedBytes(PartOf(args, 0, 1));
  // Each of at most six tensors is rounded up to 64 bytes.
  const int64_t rounding = 6 * 64, each = (whole - one).value / (all - 1) + 1;
  return 1 + std::max<int64_t>(limit.value - one.value - rounding, 0) / each;
}

}  // namespace

void ConvertingOps::UseScratch(const OpScratch& scratch) {
  set_aside_ = scratch.conversions;
  inner_->UseScratch(scratch);
}

OpHoldings ConvertingOps::held() const {
  OpHoldings held = inner_->held();
  if (scratch_ != nullptr) held.scratch += scratch_->size();
  return held;
}

absl::StatusOr<Slice> ConvertingOps::ScratchOf(Bytes size) {
  if (4 * set_aside_.elements >= size.value) return set_aside_;
  if (scratch_ == nullptr || scratch_->size() < size) {
    scratch_ = nullptr;  // before the larger one: both may not fit
    ASSIGN_OR_RETURN(scratch_, queue_.Allocate(size));
  }
  return Slice{scratch_.get(), 0, size.value / 4};
}

template <typename Args>
absl::Status ConvertingOps::Submit(const Args& args) {
  const absl::Status taken = RunOp(*inner_, args);
  if (!absl::IsUnimplemented(taken)) return taken;
  if (WidenedBytes(args) == Bytes{}) return taken;
  if constexpr (requires { args.epilogue; }) {
    if (args.epilogue != Epilogue::kNone) return SubmitEpilogue(args);
  }
  return ConvertInParts(args);
}

template <typename Args>
absl::Status ConvertingOps::ConvertInParts(const Args& args) {
  Args whole = args;
  const Bytes size = WidenedBytes(args);
  const Bytes limit = set_aside_.empty() ? part_ : std::min(part_, Bytes{4 * set_aside_.elements});
  const int64_t* const all = CutSize(whole);
  if (all == nullptr || size <= limit) return Convert(args);
  const int64_t most = MostOfPart(args, *all, size, limit), parts = (*all + most - 1) / most;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = *all * part / parts, end = *all * (part + 1) / parts;
    RETURN_IF_ERROR(Convert(PartOf(args, first, end - first)));
  }
  return absl::OkStatus();
}

absl::Status ConvertingOps::SubmitEpilogue(const MatmulArgs& args) {
  MatmulArgs plain = args;
  plain.epilogue = Epilogue::kNone;
  plain.pre_activation = {};
  if (args.epilogue == Epilogue::kGelu) plain.c = args.pre_activation;
  const absl::Status taken = inner_->Matmul(plain);
  if (absl::IsUnimplemented(taken)) return ConvertInParts(args);
  RETURN_IF_ERROR(taken);
  const int64_t elements = args.m * args.n;
  if (args.epilogue == Epilogue::kGelu)
    return GeluForward({.x = args.pre_activation, .y = args.c, .elements = elements});
  return GeluBackward({.x = args.pre_activation, .dy = args.c, .dx = args.c, .elements = elements});
}

template <typename Args>
absl::Status ConvertingOps::Convert(const Args& args) {
  Args wide = args;
  const OpSlices operands = SlicesOf(wide);
  Bytes size;
  WideCopies copies = CopiesOf(operands, size);
  ASSIGN_OR_RETURN(const Slice scratch, ScratchOf(size));
  for (WideCopy& copy : copies) {
    copy.wide.buffer = scratch.buffer;
    copy.wide.offset_bytes += scratch.offset_bytes;
    if (copy.read)
      RETURN_IF_ERROR(inner_->Cast({.x = copy.narrow, .y = copy.wide, .elements = copy.wide.elements}));
    for (const OpSlice& operand : operands) {
      const bool here = operand.typed && operand.slice->buffer == copy.narrow.buffer &&
                        operand.slice->offset_bytes == copy.narrow.offset_bytes &&
                        operand.slice->dtype == copy.narrow.dtype;
      if (here) *operand.slice = copy.wide;
    }
  }
  if constexpr (requires { wide.b_constness; }) {
    // No copy of what lies in scratch may be kept.
    if (!(wide.b == args.b)) wide.b_constness = Constness::kVaries;
  }
  RETURN_IF_ERROR(RunOp(*inner_, wide));
  for (const WideCopy& copy : copies) {
    if (copy.written)
      RETURN_IF_ERROR(inner_->Cast({.x = copy.wide, .y = copy.narrow, .elements = copy.wide.elements}));
  }
  return absl::OkStatus();
}

#define MEDLEY_INSTANTIATE(name) \
  template absl::Status ConvertingOps::Submit<name##Args>(const name##Args& args);
MEDLEY_EACH_OP(MEDLEY_INSTANTIATE)
#undef MEDLEY_INSTANTIATE

}  // namespace medley
