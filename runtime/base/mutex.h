#pragma once
#include <pthread.h>

#include <cerrno>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"

namespace medley {

// std::mutex with the annotations that clang's -Wthread-safety checks. Ours, not
// absl::Mutex: the packaged Abseil is built without TSan, which then reports
// every correctly locked access as a race.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
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

// Waits by CLOCK_MONOTONIC: a system's clock that is set does not lengthen or shorten a wait. By
// pthread_cond_timedwait, because std::condition_variable waits so by pthread_cond_clockwait, which GCC 12's
// TSan does not know.
class ConditionVariable {
 public:
  ConditionVariable() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~ConditionVariable() { pthread_cond_destroy(&condition_); }
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;

  void NotifyAll() { pthread_cond_broadcast(&condition_); }
  void NotifyOne() { pthread_cond_signal(&condition_); }

  // Waits, `mutex` held, until `ready()` or `deadline`, a moment of Now() (clock.h; absl::InfiniteFuture()
  // waits for ever). Returns ready().
  template <typename Ready>
  bool WaitUntil(Mutex& mutex, absl::Time deadline, Ready ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const bool for_ever = deadline == absl::InfiniteFuture();
    const timespec end = for_ever ? timespec{} : ToMonotonic(deadline);
    while (!ready()) {
      if (for_ever) {
        pthread_cond_wait(&condition_, mutex.mutex_.native_handle());
      } else if (pthread_cond_timedwait(&condition_, mutex.mutex_.native_handle(), &end) == ETIMEDOUT) {
        return ready();
      }
    }
    return true;
  }

 private:
  pthread_cond_t condition_;
};

}  // namespace medley
