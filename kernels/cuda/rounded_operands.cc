#include "kernels/cuda/rounded_operands.h"

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// What kernels of the libraries ask of an address.
constexpr int64_t kAlignmentBytes = 16;

}  // namespace

bool RoundedOperands::IsTaken(const Slice& slice, Dtype dtype) {
  return slice.dtype == dtype && slice.offset_bytes % kAlignmentBytes == 0;
}

absl::StatusOr<Slice> RoundedOperands::Scratch(Dtype dtype, int64_t elements, size_t index) {
  std::unique_ptr<Buffer>& buffer = scratch_.at(index);
  const Bytes size{elements * SizeOf(dtype).value};
  if (buffer == nullptr || buffer->size() < size) {
    buffer = nullptr;  // before the larger one: both may not fit
    ASSIGN_OR_RETURN(buffer, queue_.AllocateWorkspace(size));
  }
  return Slice{buffer.get(), 0, elements, dtype};
}

absl::StatusOr<Slice> RoundedOperands::Destination(const Slice& y, Dtype dtype, int64_t elements,
                                                   size_t index) {
  if (IsTaken(y, dtype)) return y;
  return Scratch(dtype, elements, index);
}

absl::Status RoundedOperands::Store(const Slice& written, const Slice& y, int64_t elements) {
  if (written == y) return absl::OkStatus();
  return whole_.Cast({.x = written, .y = y, .elements = elements});
}

absl::StatusOr<Slice> RoundedOperands::Copy(const Slice& x, Dtype dtype, int64_t elements, size_t index) {
  if (IsTaken(x, dtype)) return x;
  ASSIGN_OR_RETURN(const Slice copy, Scratch(dtype, elements, index));
  RETURN_IF_ERROR(whole_.Cast({.x = x, .y = copy, .elements = elements}));
  return copy;
}

absl::StatusOr<Slice> RoundedOperands::CopyOfParameter(const Slice& x, Dtype dtype, int64_t elements) {
  if (IsTaken(x, dtype)) return x;
  Kept& kept = kept_[Key{x.buffer, x.offset_bytes, elements, dtype}];
  if (kept.buffer == nullptr) {
    ASSIGN_OR_RETURN(kept.buffer, queue_.AllocateWorkspace({elements * SizeOf(dtype).value}));
  }
  const Slice copy{kept.buffer.get(), 0, elements, dtype};
  if (kept.generation != generation_) {
    RETURN_IF_ERROR(whole_.Cast({.x = x, .y = copy, .elements = elements}));
    kept.generation = generation_;
  }
  return copy;
}

Bytes RoundedOperands::scratch() const {
  Bytes sum{0};
  for (const auto& buffer : scratch_) {
    if (buffer != nullptr) sum += buffer->size();
  }
  return sum;
}

Bytes RoundedOperands::copies() const {
  Bytes sum{0};
  for (const auto& [key, kept] : kept_) {
    if (kept.buffer != nullptr) sum += kept.buffer->size();
  }
  return sum;
}

}  // namespace medley
