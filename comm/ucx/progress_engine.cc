#include "comm/ucx/progress_engine.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/short_turns.h"

namespace medley {
namespace {

// How long a waiting thread polls, after anything moved, before it sleeps. At first about what a sleep and a
// wake-up cost. Twice as long after each sleep that such a wait would have spared: two ends that both sleep
// answer each other so late that both would go on to sleep.
constexpr absl::Duration kShortestPolling = absl::Microseconds(30), kLongestPolling = absl::Microseconds(500);
// How many rounds of polling pass between looks at the clock, and between chances for others to have the
// core. A round that finds nothing takes some 20 ns over shared memory, and a system call over TCP.
constexpr int kRoundsPerLook = 32;
// A yield that comes back sooner than this found nobody else who wants the core.
constexpr absl::Duration kLonelyYield = absl::Microseconds(2);
// How long the thread leaves the worker to pollers after the last of them was seen: where they come again and again, for longer than
// they stay away, so that a message which is early for its receiver does not interrupt what that computes. Devices that share layers
// exchange so. Who stays away for longer than kLongestLease is not waited for.
constexpr absl::Duration kShortestLease = absl::Microseconds(200), kLongestLease = absl::Milliseconds(3);
constexpr double kLeaseOverGap = 1.5;
// Per visit of a poller, of the longest time that they stayed away.
constexpr double kForgetting = 0.99;
// Where UCX has something to do but cannot yet (a full queue of a peer that does not run), it refuses to be
// armed. After that many refusals in a row the thread looks only now and then, and ever less often.
constexpr int kRefusalsBeforePause = 50;
constexpr absl::Duration kPause = absl::Microseconds(100);
constexpr absl::Duration kLongestPause = absl::Milliseconds(1);
constexpr absl::Duration kTidyPeriod = absl::Milliseconds(100);
constexpr int kTidyShare = 100;  // of the time, one part in so many

}  // namespace

ProgressEngine::ProgressEngine(UcxWorker& worker, std::function<void()> tidy)
    : worker_(worker), tidy_(std::move(tidy)), polling_for_(kShortestPolling), thread_([this] { Run(); }) {}

ProgressEngine::~ProgressEngine() {
  {
    EngineLock lock(*this);
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
  untidy_ |= any;
  return any;
}

bool ProgressEngine::StepAside() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.Unlock();
  const absl::Time before = Now();
  std::this_thread::yield();
  const bool others = Now() - before > kLonelyYield;
  mutex_.Lock();
  return others;
}

void ProgressEngine::Nudge(absl::FunctionRef<bool()> done) {
  Progress(/*rounds=*/4);
  // A thread that waits its turn behind the pollers looks by itself when their lease ends.
  if (asleep_ && !done()) WakeThread();
}

void ProgressEngine::Look() {
  ++polls_;
  Progress(/*rounds=*/2);
}

void ProgressEngine::TakeIn(absl::Duration limit) {
  const absl::Time end = Now() + limit;
  while (Progress(/*rounds=*/64) && Now() < end) {
  }
}

absl::Time ProgressEngine::Poll(absl::Time deadline, absl::FunctionRef<bool()> done) {
  polling_ = true;
  ++polls_;
  absl::Time begin = absl::InfinitePast(), end;
  bool shared = false;  // the core, with others who want it
  bool moved = false;   // something, since the last look at the clock
  for (int round = 1; !halted_; ++round) {
    moved |= Progress(/*rounds=*/1);
    if (done()) break;
    const bool look = shared || round % kRoundsPerLook == 0;
    if (!look && !wanted_.load(std::memory_order_relaxed)) continue;
    const absl::Time now = Now();
    if (begin == absl::InfinitePast()) {
      begin = now;
      NoteVisit(now);
    }
    if (begin == now || std::exchange(moved, false)) end = std::min(deadline, now + polling_for_);
    if (now >= end) break;
    shared = StepAside();
    if (done()) break;
  }
  polling_ = false;
  return begin;
}

void ProgressEngine::NoteVisit(absl::Time now) {
  const absl::Duration gap = now - std::exchange(last_visit_, now);
  if (gap >= absl::ZeroDuration() && gap < kLongestLease) gap_ = std::max(gap, kForgetting * gap_);
}

absl::Duration ProgressEngine::Lease() const {
  return std::clamp(kLeaseOverGap * gap_, kShortestLease, kLongestLease);
}

bool ProgressEngine::Await(ConditionVariable& changed, absl::Time deadline, absl::FunctionRef<bool()> done,
                           absl::Duration* waited) {
  if (done()) return true;
  absl::Time begin = absl::InfinitePast();
  bool met = false;
  if (!polling_ && !halted_) {
    begin = Poll(deadline, done);
    met = done();
    // Those that sleep have left the polling to this thread.
    if (!met || sleepers_ > 0) WakeThread();
  }
  if (begin == absl::InfinitePast() && !met) begin = Now();
  if (!met) {
    const absl::Time fell_asleep = Now();
    ++sleepers_;
    met = changed.WaitUntil(mutex_, deadline, done);
    --sleepers_;
    const bool longer = Now() - fell_asleep < kLongestPolling;
    polling_for_ =
        std::clamp(longer ? 2 * polling_for_ : polling_for_ / 2, kShortestPolling, kLongestPolling);
  }
  if (waited != nullptr && begin != absl::InfinitePast()) *waited = Now() - begin;
  return met;
}

absl::Duration ProgressEngine::Tidy(absl::Time now) {
  if (!untidy_ || halted_) return absl::InfiniteDuration();
  if (now < next_tidy_ && next_tidy_ <= now + absl::Seconds(10))
    return next_tidy_ - now;  // else a clock set back
  untidy_ = false;
  tidy_();
  const absl::Time end = Now();
  next_tidy_ = end + std::clamp((end - now) * kTidyShare, kTidyPeriod, absl::Seconds(5));
  return absl::InfiniteDuration();
}

void ProgressEngine::SleepUntilEvent(int timeout_milliseconds) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  asleep_ = true;
  mutex_.Unlock();
  pollfd descriptor{worker_.event_descriptor(), POLLIN, 0};
  poll(&descriptor, 1, timeout_milliseconds);  // an interruption is as good as an event
  mutex_.Lock();
  asleep_ = false;
}

void ProgressEngine::Run() {
  AskForShortTurns();
  MutexLock lock(mutex_);
  const auto wanted = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return asked_ || stopping_; };
  uint64_t polls_seen = 0;
  int refusals = 0;
  while (!stopping_) {
    if (halted_) {
      take_over_.WaitUntil(mutex_, absl::InfiniteFuture(),
                           [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; });
      continue;
    }
    const absl::Time now = Now();
    const absl::Duration tidy_in = Tidy(now);
    // Who sleeps has given up polling, and waits for this thread.
    if (!asked_ && (polling_ || (polls_ != polls_seen && sleepers_ == 0))) {
      polls_seen = polls_;
      take_over_.WaitUntil(mutex_, now + Lease(), wanted);
      continue;
    }
    asked_ = false;
    if (Progress(/*rounds=*/64)) {
      refusals = 0;
      StepAside();
      continue;
    }
    if (ucp_worker_arm(worker_.get()) == UCS_OK) {
      refusals = 0;
      SleepUntilEvent(tidy_in == absl::InfiniteDuration()
                          ? -1
                          : static_cast<int>(absl::ToInt64Milliseconds(tidy_in)) + 1);
    } else if (++refusals > kRefusalsBeforePause) {
      const absl::Duration pause = std::min(kPause * (refusals / kRefusalsBeforePause), kLongestPause);
      take_over_.WaitUntil(mutex_, Now() + pause, wanted);
    } else {
      StepAside();
    }
  }
}

}  // namespace medley
