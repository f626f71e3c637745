#pragma once
#include <ucp/api/ucp.h>

#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comm/ucx/ucx_worker.h"
#include "runtime/base/mutex.h"

namespace medley {

// Keeps a UCX worker going without burning a core, and serialises all calls on it by one mutex.
//
// Who progresses: a thread that waits polls for kPolling itself, since most messages are about to come; then
// it sleeps, and the engine's thread takes over, which sleeps in poll(2) on the worker's descriptor until
// there is something to do. While threads keep polling, the engine's thread stays out of their way.
class ProgressEngine {
 public:
  // Starts the thread. `worker` must outlive this.
  explicit ProgressEngine(UcxWorker& worker);
  // Joins the thread, which is never in a call that waits for a peer.
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Held for every call on the worker; UCX's callbacks run with it held.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // After posting: progresses a little, and if `done` does not hold then, sees to it that the thread goes on.
  void Nudge(absl::FunctionRef<bool()> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Progresses or sleeps until `done()`, which a callback made true and told `changed`, or until `deadline`.
  // Returns done().
  bool Await(ConditionVariable& changed, absl::Time deadline, absl::FunctionRef<bool()> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // From now on nobody progresses the worker: UCX touches no message's bytes any more.
  void Halt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool halted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return halted_; }

 private:
  void Run();
  // Runs callbacks. Returns whether there was anything to do.
  bool Progress(int rounds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Poll(absl::Time deadline, absl::FunctionRef<bool()> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets others have the mutex, and the core.
  void StepAside() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SleepUntilEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  UcxWorker& worker_;
  Mutex mutex_;
  ConditionVariable take_over_;  // tells the thread, where it waits for pollers
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool halted_ ABSL_GUARDED_BY(mutex_) = false;
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;      // some thread is in Poll
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;  // a thread that gave up polling wants the thread to go on
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;       // the thread is in poll(2), not yet signalled
  absl::Time last_poll_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace medley
