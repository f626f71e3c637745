#pragma once
#include <functional>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"

namespace medley {

// Does things later, one after another in the order of their times, in one thread however many they are. Thread-safe.
class TimerQueue {
 public:
  TimerQueue();
  // What is not due yet is not done; what is under way is waited for.
  ~TimerQueue();

  // `when`: a moment of Now(). `what` must be quick.
  void At(absl::Time when, std::function<void()> what);

 private:
  void Run();

  Mutex mutex_;
  ConditionVariable changed_;
  std::multimap<absl::Time, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace medley
