#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace medley {

// std::mutex with the annotations that clang's -Wthread-safety checks. Ours, not
// absl::Mutex: the packaged Abseil is built without TSan, which then reports
// every correctly locked access as a race.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class ConditionVariable {
 public:
  void NotifyAll() { condition_.notify_all(); }
  void NotifyOne() { condition_.notify_one(); }

  // Waits, `mutex` held, until `ready()` or `deadline` (absl::InfiniteFuture() waits for ever). Returns ready().
  template <typename Ready>
  bool WaitUntil(Mutex& mutex, absl::Time deadline, Ready ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool met = true;
    if (deadline == absl::InfiniteFuture()) {
      condition_.wait(lock, ready);
    } else {
      // A system_clock wait: the steady_clock one (pthread_cond_clockwait) is unknown to GCC 12's TSan.
      met = condition_.wait_until(lock, absl::ToChronoTime(deadline), ready);
    }
    lock.release();
    return met;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace medley
