#include "kernels/host/host_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {
namespace {

constexpr size_t kAlignmentBytes = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Null if the host has no memory left. Large blocks ask for huge pages: a matmul walks its operands by
// column.
std::byte* AllocateZeroed(size_t size_bytes) {
  const size_t alignment = size_bytes >= 2 * kHugePageBytes ? kHugePageBytes : kAlignmentBytes;
  const size_t rounded = (std::max<size_t>(size_bytes, 1) + alignment - 1) / alignment * alignment;
  void* address = std::aligned_alloc(alignment, rounded);
  if (address == nullptr) return nullptr;
  if (alignment == kHugePageBytes) madvise(address, rounded, MADV_HUGEPAGE);
  std::memset(address, 0, rounded);
  return static_cast<std::byte*>(address);
}

}  // namespace

class HostBuffer final : public Buffer {
 public:
  HostBuffer(HostQueue& queue, std::byte* address, Bytes size)
      : queue_(queue), address_(address), size_(size) {}
  ~HostBuffer() override {
    std::free(address_);
    queue_.allocated_ -= size_.value;
  }
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return address_; }

 private:
  HostQueue& queue_;
  std::byte* const address_;
  const Bytes size_;
};

absl::StatusOr<std::unique_ptr<Buffer>> HostQueue::Allocate(Bytes size) {
  if (size.value < 0)
    return absl::InvalidArgumentError(absl::StrCat(name_, ": cannot allocate ", size.value, " B"));
  const int64_t used = allocated_.load();
  if (size.value > limit_.value - used) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": ", FormatBytes(size), " (", size.value,
                                                     " B) requested, ", FormatBytes({used}),
                                                     " in use of a limit of ", FormatBytes(limit_)));
  }
  std::byte* address = AllocateZeroed(static_cast<size_t>(size.value));
  if (address == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": the host has no ", FormatBytes(size),
                                                     " left, below the limit of ", FormatBytes(limit_),
                                                     " with ", FormatBytes({used}), " in use"));
  }
  const int64_t now = allocated_ += size.value;
  if (now > peak_allocated_) peak_allocated_ = now;
  return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(*this, address, size));
}

absl::Status HostQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  RETURN_IF_ERROR(error());
  if (!from.empty()) std::memcpy(to.host_address() + offset.value, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status HostQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  RETURN_IF_ERROR(error());
  if (!to.empty()) std::memcpy(to.data(), from.host_address() + offset.value, to.size());
  return absl::OkStatus();
}

Fence HostQueue::Record() { return {++recorded_}; }

absl::Status HostQueue::Wait(Fence) { return error(); }

absl::Status HostQueue::Poison(absl::Status error) {
  MutexLock lock(mutex_);
  if (error_.ok()) {
    error_ = std::move(error);
    poisoned_ = true;
  }
  return error_;
}

absl::Status HostQueue::error() const {
  if (!poisoned_.load()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return error_;
}

}  // namespace medley
