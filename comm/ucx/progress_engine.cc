#include "comm/ucx/progress_engine.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace medley {
namespace {

// How long a waiting thread polls before it sleeps: about what a sleep and a wake-up cost.
constexpr absl::Duration kPolling = absl::Microseconds(30);
// How long the thread leaves the worker to pollers after the last of them was seen.
constexpr absl::Duration kLease = absl::Microseconds(200);
// Where UCX has something to do but cannot yet (a full queue of a peer that does not run), it refuses to be
// armed. After that many refusals in a row the thread looks only now and then.
constexpr int kRefusalsBeforePause = 50;
constexpr absl::Duration kPause = absl::Microseconds(100);

}  // namespace

ProgressEngine::ProgressEngine(UcxWorker& worker) : worker_(worker), thread_([this] { Run(); }) {}

ProgressEngine::~ProgressEngine() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    WakeThread();
  }
  thread_.join();
}

void ProgressEngine::WakeThread() {
  asked_ = true;
  take_over_.NotifyAll();
  if (std::exchange(asleep_, false)) ucp_worker_signal(worker_.get());
}

void ProgressEngine::Halt() {
  halted_ = true;
  WakeThread();
}

bool ProgressEngine::Progress(int rounds) {
  bool any = false;
  for (int i = 0; i < rounds && !halted_; ++i) {
    if (ucp_worker_progress(worker_.get()) == 0) break;
    any = true;
  }
  return any;
}

void ProgressEngine::StepAside() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.Unlock();
  std::this_thread::yield();
  mutex_.Lock();
}

void ProgressEngine::Nudge(absl::FunctionRef<bool()> done) {
  Progress(/*rounds=*/4);
  // A thread that waits its turn behind the pollers looks by itself within kLease.
  if (!done() && asleep_) WakeThread();
}

void ProgressEngine::Poll(absl::Time deadline, absl::FunctionRef<bool()> done) {
  polling_ = true;
  const absl::Time end = std::min(deadline, absl::Now() + kPolling);
  while (!halted_) {
    Progress(/*rounds=*/8);
    if (done() || absl::Now() >= end) break;
    StepAside();
    if (done()) break;
  }
  polling_ = false;
  last_poll_ = absl::Now();
}

bool ProgressEngine::Await(ConditionVariable& changed, absl::Time deadline, absl::FunctionRef<bool()> done) {
  if (done()) return true;
  if (!polling_ && !halted_) {
    Poll(deadline, done);
    if (done()) return true;
    last_poll_ = absl::InfinitePast();
    WakeThread();
  }
  return changed.WaitUntil(mutex_, deadline, done);
}

void ProgressEngine::SleepUntilEvent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  asleep_ = true;
  mutex_.Unlock();
  pollfd descriptor{worker_.event_descriptor(), POLLIN, 0};
  poll(&descriptor, 1, /*timeout=*/-1);  // an interruption is as good as an event
  mutex_.Lock();
  asleep_ = false;
}

void ProgressEngine::Run() {
  MutexLock lock(mutex_);
  const auto wanted = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return asked_ || stopping_; };
  int refusals = 0;
  while (!stopping_) {
    if (halted_) {
      take_over_.WaitUntil(mutex_, absl::InfiniteFuture(),
                           [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; });
      continue;
    }
    const absl::Time now = absl::Now();
    const bool leased = last_poll_ <= now && now < last_poll_ + kLease;  // a clock set back ends it
    if (!asked_ && (polling_ || leased)) {
      take_over_.WaitUntil(mutex_, now + kLease, wanted);
      continue;
    }
    asked_ = false;
    if (Progress(/*rounds=*/64)) {
      refusals = 0;
      StepAside();
      continue;
    }
    if (halted_) continue;
    if (ucp_worker_arm(worker_.get()) == UCS_OK) {
      refusals = 0;
      SleepUntilEvent();
    } else if (++refusals > kRefusalsBeforePause) {
      take_over_.WaitUntil(mutex_, absl::Now() + kPause, wanted);
    } else {
      StepAside();
    }
  }
}

}  // namespace medley
