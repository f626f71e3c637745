#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/mutex.h"

namespace medley {

// What this process has got done so far: a number that grows with every instruction, file piece or phase that whoever works in
// it reports, and what it is at now. A number that stands still for long is the sign of a process that hangs. Thread-safe.
class Progress {
 public:
  struct Phase {
    std::string activity;          // for people: "reading segment 3"
    bool waits_for_peers = false;  // others must do something first: that the number stands still is not this process's doing
  };

  static Progress& OfProcess() {
    static Progress progress;
    return progress;
  }

  // Something was done.
  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  // From now on the process is at `activity`. Counts as something done.
  void Enter(std::string activity, bool waits_for_peers = false) {
    Add();
    MutexLock lock(mutex_);
    phase_ = {std::move(activity), waits_for_peers};
    describe_ = nullptr;
  }

  // From now on, until the next Enter, `describe` says what the process is at. Called from any thread, must not call back.
  void DescribeBy(std::function<Phase()> describe) {
    Add();
    MutexLock lock(mutex_);
    describe_ = std::move(describe);
  }

  Phase phase() const {
    MutexLock lock(mutex_);
    return describe_ ? describe_() : phase_;
  }

 private:
  std::atomic<uint64_t> count_ = 0;
  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = {"starting"};
  std::function<Phase()> describe_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
