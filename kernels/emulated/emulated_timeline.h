#pragma once
#include <cstdint>

#include "runtime/base/mutex.h"
#include "runtime/device/device_queue.h"

namespace medley {

// Work that is done when its time has come, in order, on the monotonic clock: a piece is complete at max(now,
// completion of the one before) + its duration. Any thread.
class EmulatedTimeline {
 public:
  // Submits work that takes so long; not negative.
  void Take(double seconds);
  // What is taken from now on begins at `fence`, of this timeline or another, at the earliest.
  void BeginAfter(Fence fence);
  // The fence's value is when it is reached, in nanoseconds of the monotonic clock.
  Fence Record();
  // Sleeps until then.
  static void SleepUntil(Fence fence);

 private:
  Mutex mutex_;
  int64_t free_at_ ABSL_GUARDED_BY(mutex_) = 0;  // nanoseconds of the monotonic clock
};

}  // namespace medley
