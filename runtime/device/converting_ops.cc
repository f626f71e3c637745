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

}  // namespace

absl::Status ConvertingOps::EnsureScratch(Bytes size) {
  if (scratch_ != nullptr && scratch_->size() >= size) return absl::OkStatus();
  scratch_ = nullptr;  // before the larger one: both may not fit
  ASSIGN_OR_RETURN(scratch_, queue_.Allocate(size));
  return absl::OkStatus();
}

Bytes ConvertingOps::workspace() const {
  return inner_->workspace() + (scratch_ == nullptr ? Bytes{0} : scratch_->size());
}

template <typename Args>
absl::Status ConvertingOps::Submit(const Args& args) {
  absl::Status taken = RunOp(*inner_, args);
  if (!absl::IsUnimplemented(taken)) return taken;
  Args wide = args;
  const OpSlices operands = SlicesOf(wide);
  Bytes size;
  WideCopies copies = CopiesOf(operands, size);
  if (copies.empty()) return taken;
  RETURN_IF_ERROR(EnsureScratch(size));
  for (WideCopy& copy : copies) {
    copy.wide.buffer = scratch_.get();
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
