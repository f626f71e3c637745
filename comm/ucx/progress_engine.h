#pragma once
#include <ucp/api/ucp.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comm/ucx/ucx_worker.h"
#include "runtime/base/mutex.h"

namespace medley {

// Keeps a UCX worker going without burning a core, and serialises all calls on it by one mutex.
//
// Who progresses: a thread that waits polls for a short time itself, since most messages are about to come;
// then it sleeps, and the engine's thread takes over, which sleeps in poll(2) on the worker's descriptor
// until there is something to do. While threads keep polling, the engine's thread stays out of their way.
class ProgressEngine {
 public:
  // Starts the thread. `worker` must outlive this. `tidy` is called with the mutex held, now and then after
  // messages have come: at most ten times a second, and for at most a hundredth of the time. It must not
  // block.
  ProgressEngine(UcxWorker& worker, std::function<void()> tidy);
  // Joins the thread, which is never in a call that waits for a peer.
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Held for every call on the worker; UCX's callbacks run with it held. To be locked by EngineLock.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // After posting what is not done at once: progresses a little, and if `done` does not hold then, sees to it
  // that the thread goes on.
  void Nudge(absl::FunctionRef<bool()> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Progresses a little.
  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes in what has arrived, as far as that goes within `limit`.
  void TakeIn(absl::Duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Progresses or sleeps until `done()`, which a callback made true and told `changed`, or until `deadline`.
  // Returns done(). `waited`, if not null: how long that took, zero for less than about a microsecond.
  bool Await(ConditionVariable& changed, absl::Time deadline, absl::FunctionRef<bool()> done,
             absl::Duration* waited = nullptr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // From now on nobody progresses the worker.
  void Halt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool halted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return halted_; }

 private:
  friend class EngineLock;

  void Run();
  // Runs callbacks. Returns whether there was anything to do.
  bool Progress(int rounds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when it began, or InfinitePast if `done` held before it was worth looking at the clock.
  absl::Time Poll(absl::Time deadline, absl::FunctionRef<bool()> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A thread polls, for long enough to have looked at the clock.
  void NoteVisit(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How long the engine's thread leaves the worker to pollers that it has seen.
  absl::Duration Lease() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets others have the mutex, and the core. Returns whether others had the core.
  bool StepAside() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SleepUntilEvent(int timeout_milliseconds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `tidy` if it is due. Returns how long it may be put off, or InfiniteDuration where there is no
  // need.
  absl::Duration Tidy(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  UcxWorker& worker_;
  const std::function<void()> tidy_;
  Mutex mutex_;
  std::atomic<bool> wanted_ = false;  // somebody waits for the mutex; a hint for pollers
  ConditionVariable take_over_;       // tells the thread, where it waits for pollers
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool halted_ ABSL_GUARDED_BY(mutex_) = false;
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;  // some thread is in Poll
  absl::Duration polling_for_ ABSL_GUARDED_BY(mutex_);
  int sleepers_ ABSL_GUARDED_BY(mutex_) = 0;     // threads that wait and do not poll
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;   // a thread that gave up polling wants the thread to go on
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;  // the thread is in poll(2), not yet signalled
  uint64_t polls_ ABSL_GUARDED_BY(mutex_) = 0;   // by others than the thread
  absl::Time last_visit_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // of a poller
  absl::Duration gap_ ABSL_GUARDED_BY(mutex_);   // the longest between two visits, of late
  bool untidy_ ABSL_GUARDED_BY(mutex_) = false;  // something came since `tidy_` was called
  absl::Time next_tidy_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;
};

// Holds the engine's mutex. A poller notices that somebody waits for it, and hands it over.
class ABSL_SCOPED_LOCKABLE EngineLock {
 public:
  explicit EngineLock(ProgressEngine& engine) ABSL_EXCLUSIVE_LOCK_FUNCTION(engine.mutex_) : engine_(engine) {
    engine.wanted_.store(true, std::memory_order_relaxed);
    engine.mutex_.Lock();
    engine.wanted_.store(false, std::memory_order_relaxed);
  }
  ~EngineLock() ABSL_UNLOCK_FUNCTION() { engine_.mutex_.Unlock(); }
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

 private:
  ProgressEngine& engine_;
};

}  // namespace medley
