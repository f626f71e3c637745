#include "kernels/host/host_queue.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

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
  ZeroHostMemory(memory.get(), size.value);
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

namespace {

// Work is done when it has been submitted, so a mark is reached when it is set.
class HostTimer final : public QueueTimer {
 public:
  HostTimer(const HostQueue& queue, int marks) : queue_(queue), reached_(marks) {}
  absl::Status Set(int index) override {
    reached_[index] = std::chrono::steady_clock::now();
    return queue_.error();
  }
  absl::StatusOr<double> Seconds(int from, int to) override {
    return std::chrono::duration<double>(reached_[to] - reached_[from]).count();
  }

 private:
  const HostQueue& queue_;
  std::vector<std::chrono::steady_clock::time_point> reached_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueueTimer>> HostQueue::OpenTimer(int marks) {
  return std::make_unique<HostTimer>(*this, marks);
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
