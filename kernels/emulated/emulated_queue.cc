#include "kernels/emulated/emulated_queue.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulated/emulated_copy_lane.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

class EmulatedBuffer final : public Buffer {
 public:
  EmulatedBuffer(EmulatedQueue& queue, Bytes size) : queue_(queue), size_(size) {}
  ~EmulatedBuffer() override { queue_.allocated_ -= size_.value; }
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return nullptr; }

 private:
  EmulatedQueue& queue_;
  const Bytes size_;
};

absl::StatusOr<std::unique_ptr<Buffer>> EmulatedQueue::Allocate(Bytes size) {
  if (size.value < 0)
    return absl::InvalidArgumentError(absl::StrCat(options_.name, ": cannot allocate ", size.value, " B"));
  const int64_t used = allocated_.load();
  if (size.value > options_.limit.value - used) {
    return absl::ResourceExhaustedError(absl::StrCat(options_.name, ": ", FormatBytes(size), " (", size.value,
                                                     " B) requested, ", FormatBytes({used}),
                                                     " in use of a limit of ", FormatBytes(options_.limit)));
  }
  const int64_t now = allocated_ += size.value;
  if (now > peak_allocated_) peak_allocated_ = now;
  return std::unique_ptr<Buffer>(std::make_unique<EmulatedBuffer>(*this, size));
}

double EmulatedQueue::CopySeconds(size_t bytes) const {
  return options_.copy_overhead_seconds + static_cast<double>(bytes) / options_.link_bytes_per_second;
}

absl::Status EmulatedQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  Take(CopySeconds(from.size()));
  return absl::OkStatus();
}

absl::Status EmulatedQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  if (!to.empty()) std::memset(to.data(), 0, to.size());
  Take(CopySeconds(to.size()));
  return absl::OkStatus();
}

namespace {

class EmulatedTimer final : public QueueTimer {
 public:
  EmulatedTimer(EmulatedQueue& queue, int marks) : queue_(queue), reached_(marks) {}
  absl::Status Set(int index) override {
    queue_.Take(0);  // an idle queue was free before now
    reached_[index] = queue_.Record();
    return absl::OkStatus();
  }
  absl::StatusOr<double> Seconds(int from, int to) override {
    return 1e-9 * static_cast<double>(static_cast<int64_t>(reached_[to].value - reached_[from].value));
  }

 private:
  EmulatedQueue& queue_;
  std::vector<Fence> reached_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueueTimer>> EmulatedQueue::OpenTimer(int marks) {
  return std::make_unique<EmulatedTimer>(*this, marks);
}

absl::Status EmulatedQueue::Wait(Fence fence) {
  EmulatedTimeline::SleepUntil(fence);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CopyLane>> EmulatedQueue::OpenCopyLane() {
  return std::make_unique<EmulatedCopyLane>(*this);
}

absl::Status EmulatedQueue::AwaitLane(CopyLane&, Fence fence) {
  timeline_.BeginAfter(fence);
  return absl::OkStatus();
}

}  // namespace medley
