#include "kernels/emulated/emulated_queue.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

int64_t NowNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

// The kernel may add 50 us to every sleep to save power, which is as long as some ops take.
void SleepExactly() {
  static thread_local const int set = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  (void)set;
}

absl::Status CheckCopy(const char* what, Bytes buffer, Bytes offset, size_t count) {
  const bool inside = offset.value >= 0 && offset.value <= buffer.value &&
                      count <= static_cast<size_t>(buffer.value - offset.value);
  if (inside) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(what, " of ", count, " B at byte ", offset.value, " of a buffer of ", buffer.value, " B"));
}

}  // namespace

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

void EmulatedQueue::Take(double seconds) {
  const int64_t duration = std::llround(seconds * static_cast<double>(kNanosecondsPerSecond));
  const int64_t now = NowNanoseconds();
  MutexLock lock(mutex_);
  free_at_ = std::max(now, free_at_) + duration;
}

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

void EmulatedQueue::TakeCopy(size_t bytes) {
  Take(options_.copy_overhead_seconds + static_cast<double>(bytes) / options_.link_bytes_per_second);
}

absl::Status EmulatedQueue::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopy("Upload", to.size(), offset, from.size()));
  TakeCopy(from.size());
  return absl::OkStatus();
}

absl::Status EmulatedQueue::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopy("Download", from.size(), offset, to.size()));
  if (!to.empty()) std::memset(to.data(), 0, to.size());
  TakeCopy(to.size());
  return absl::OkStatus();
}

Fence EmulatedQueue::Record() {
  MutexLock lock(mutex_);
  return {static_cast<uint64_t>(free_at_)};
}

absl::Status EmulatedQueue::Wait(Fence fence) {
  SleepExactly();
  const int64_t at = static_cast<int64_t>(fence.value);
  const timespec when{at / kNanosecondsPerSecond, at % kNanosecondsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
  return absl::OkStatus();
}

}  // namespace medley
