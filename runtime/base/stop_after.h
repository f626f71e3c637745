#pragma once
#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {

// Sets a flag when so much time has passed, if it lives so long: a time limit for work that looks at a flag.
class StopAfter {
 public:
  // `stop` outlives it. absl::InfiniteDuration(): never, and no thread is started.
  StopAfter(std::atomic<bool>& stop, absl::Duration limit) {
    if (limit == absl::InfiniteDuration()) return;
    thread_ = std::thread([this, &stop, deadline = Now() + limit] {
      MutexLock lock(mutex_);
      if (!changed_.WaitUntil(mutex_, deadline, [&] { return ended_; })) stop = true;
    });
  }
  ~StopAfter() {
    if (!thread_.joinable()) return;
    {
      MutexLock lock(mutex_);
      ended_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  StopAfter(const StopAfter&) = delete;
  StopAfter& operator=(const StopAfter&) = delete;

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace medley
