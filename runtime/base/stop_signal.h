#pragma once
#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {

// Tells a thread that sleeps most of the time to end. Thread-safe.
class StopSignal {
 public:
  void Stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  // Sleeps for `time`, or until Stop, also one that came before. Whether the thread is to go on.
  bool SleepUnlessStopped(absl::Duration time) {
    MutexLock lock(mutex_);
    return !changed_.WaitUntil(mutex_, Now() + time, [&] { return stopped_; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace medley
