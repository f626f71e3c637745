#include "kernels/host/host_queue.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

class HostBuffer final : public Buffer {
 public:
  HostBuffer(HostQueue& queue, HostMemory memory, Bytes size)
      : queue_(queue), memory_(std::move(memory)), size_(size) {}
  ~HostBuffer() override { queue_.allocated_ -= size_.value; }
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return memory_.get(); }

 private:
  HostQueue& queue_;
  const HostMemory memory_;
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
  HostMemory memory = AllocateHostMemory(size.value);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": the host has no ", FormatBytes(size),
                                                     " left, below the limit of ", FormatBytes(limit_),
                                                     " with ", FormatBytes({used}), " in use"));
  }
  std::memset(memory.get(), 0, static_cast<size_t>(size.value));
  const int64_t now = allocated_ += size.value;
  if (now > peak_allocated_) peak_allocated_ = now;
  return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(*this, std::move(memory), size));
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
