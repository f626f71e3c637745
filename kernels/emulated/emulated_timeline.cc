#include "kernels/emulated/emulated_timeline.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>

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

}  // namespace

void EmulatedTimeline::Take(double seconds) {
  const int64_t duration = std::llround(seconds * static_cast<double>(kNanosecondsPerSecond));
  const int64_t now = NowNanoseconds();
  MutexLock lock(mutex_);
  free_at_ = std::max(now, free_at_) + duration;
}

void EmulatedTimeline::BeginAfter(Fence fence) {
  MutexLock lock(mutex_);
  free_at_ = std::max(free_at_, static_cast<int64_t>(fence.value));
}

Fence EmulatedTimeline::Record() {
  MutexLock lock(mutex_);
  return {static_cast<uint64_t>(free_at_)};
}

void EmulatedTimeline::SleepUntil(Fence fence) {
  SleepExactly();
  const int64_t at = static_cast<int64_t>(fence.value);
  const timespec when{at / kNanosecondsPerSecond, at % kNanosecondsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

}  // namespace medley
