#include "kernels/cuda/bf16_operands.h"

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kElementBytes = SizeOf(Dtype::kBf16).value;

// What kernels of the libraries ask of an address.
constexpr int64_t kAlignmentBytes = 16;

}  // namespace

bool Bf16Operands::IsTaken(const Slice& slice) {
  return slice.dtype == Dtype::kBf16 && slice.offset_bytes % kAlignmentBytes == 0;
}

absl::Status Bf16Operands::Round(const Slice& x, int64_t elements, const Slice& y) {
  return whole_.Cast({.x = x, .y = y, .elements = elements});
}

absl::StatusOr<Slice> Bf16Operands::Scratch(int64_t elements, size_t index) {
  std::unique_ptr<Buffer>& buffer = scratch_.at(index);
  const Bytes size{elements * kElementBytes};
  if (buffer == nullptr || buffer->size() < size) {
    buffer = nullptr;  // before the larger one: both may not fit
    ASSIGN_OR_RETURN(buffer, queue_.AllocateWorkspace(size));
  }
  return Slice{buffer.get(), 0, elements, Dtype::kBf16};
}

absl::StatusOr<Slice> Bf16Operands::Destination(const Slice& y, int64_t elements, size_t index) {
  if (IsTaken(y)) return y;
  return Scratch(elements, index);
}

absl::Status Bf16Operands::Store(const Slice& written, const Slice& y, int64_t elements) {
  if (written == y) return absl::OkStatus();
  return whole_.Cast({.x = written, .y = y, .elements = elements});
}

absl::StatusOr<Slice> Bf16Operands::Copy(const Slice& x, int64_t elements, size_t index) {
  if (IsTaken(x)) return x;
  ASSIGN_OR_RETURN(const Slice copy, Scratch(elements, index));
  RETURN_IF_ERROR(Round(x, elements, copy));
  return copy;
}

absl::StatusOr<Slice> Bf16Operands::CopyOfParameter(const Slice& x, int64_t elements) {
  if (IsTaken(x)) return x;
  Kept& kept = kept_[Key{x.buffer, x.offset_bytes, elements}];
  if (kept.buffer == nullptr) {
    ASSIGN_OR_RETURN(kept.buffer, queue_.AllocateWorkspace({elements * kElementBytes}));
  }
  const Slice copy{kept.buffer.get(), 0, elements, Dtype::kBf16};
  if (kept.generation != generation_) {
    RETURN_IF_ERROR(Round(x, elements, copy));
    kept.generation = generation_;
  }
  return copy;
}

Bytes Bf16Operands::size() const {
  Bytes sum{0};
  for (const auto& buffer : scratch_) {
    if (buffer != nullptr) sum += buffer->size();
  }
  for (const auto& [key, kept] : kept_) {
    if (kept.buffer != nullptr) sum += kept.buffer->size();
  }
  return sum;
}

}  // namespace medley
