#include "kernels/skeleton/skeleton_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

class SkeletonBuffer final : public Buffer {
 public:
  SkeletonBuffer(SkeletonQueue& queue, std::shared_ptr<std::byte[]> memory, Bytes size)
      : queue_(queue), memory_(std::move(memory)), size_(size) {}
  ~SkeletonBuffer() override { queue_.allocated_ -= size_.value; }
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return nullptr; }
  const std::shared_ptr<std::byte[]>& memory() const { return memory_; }

 private:
  SkeletonQueue& queue_;
  const std::shared_ptr<std::byte[]> memory_;  // shared with the work that uses it
  const Bytes size_;
};

std::shared_ptr<std::byte[]> SkeletonQueue::MemoryOf(Buffer& buffer) {
  return static_cast<SkeletonBuffer&>(buffer).memory();
}

absl::StatusOr<std::unique_ptr<Buffer>> SkeletonQueue::Allocate(Bytes size) {
  if (size.value < 0) {
    return absl::InvalidArgumentError(absl::StrCat("skeleton: cannot allocate ", size.value, " B"));
  }
  const int64_t used = allocated_.load();
  if (size.value > limit_.value - used) {
    return absl::ResourceExhaustedError(absl::StrCat("skeleton: ", FormatBytes(size), " requested, ",
                                                     FormatBytes({used}), " in use of a limit of ",
                                                     FormatBytes(limit_)));
  }
  HostMemory memory = AllocateHostMemory(size.value);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("skeleton: the host has no ", FormatBytes(size),
                                                     " left, below the limit of ", FormatBytes(limit_),
                                                     " with ", FormatBytes({used}), " in use"));
  }
  std::memset(memory.get(), 0, static_cast<size_t>(size.value));
  peak_allocated_ = std::max(peak_allocated_.load(), allocated_ += size.value);
  return std::make_unique<SkeletonBuffer>(*this, std::move(memory), size);
}

absl::Status SkeletonQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  return Submit([bytes = std::vector<std::byte>(from.begin(), from.end()), memory = MemoryOf(to), offset] {
    std::copy(bytes.begin(), bytes.end(), memory.get() + offset.value);
    return absl::OkStatus();
  });
}

absl::Status SkeletonQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  return Submit([to, memory = MemoryOf(from), offset] {
    std::copy_n(memory.get() + offset.value, to.size(), to.begin());
    return absl::OkStatus();
  });
}

absl::Status SkeletonQueue::Submit(std::function<absl::Status()> work) {
  MutexLock lock(mutex_);
  return line_->Submit(std::move(work));
}

namespace {

class SkeletonTimer final : public QueueTimer {
 public:
  SkeletonTimer(SkeletonQueue& queue, int marks) : queue_(queue), reached_(std::make_shared<Times>(marks)) {}
  absl::Status Set(int index) override {
    return queue_.Submit([reached = reached_, index] {
      (*reached)[index] = std::chrono::steady_clock::now();
      return absl::OkStatus();
    });
  }
  absl::StatusOr<double> Seconds(int from, int to) override {
    return std::chrono::duration<double>((*reached_)[to] - (*reached_)[from]).count();
  }

 private:
  using Times = std::vector<std::chrono::steady_clock::time_point>;
  SkeletonQueue& queue_;
  const std::shared_ptr<Times> reached_;  // work that was never waited for may outlive the timer
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueueTimer>> SkeletonQueue::OpenTimer(int marks) {
  return std::make_unique<SkeletonTimer>(*this, marks);
}

Fence SkeletonQueue::Record() {
  MutexLock lock(mutex_);
  return {line_->submitted()};
}

absl::Status SkeletonQueue::Wait(Fence fence) {
  MutexLock lock(mutex_);
  return line_->AdvanceTo(fence.value);
}

}  // namespace medley
