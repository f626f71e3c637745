#pragma once
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/mutex.h"
#include "runtime/base/progress.h"

namespace medley {

// What this process is at, for those who ask while it is. Thread-safe.
class CurrentPhase {
 public:
  struct Phase {
    std::string activity;  // for people: "reading segment 3"
    // Others must do something first: that nothing gets done is not this process's doing.
    bool waits_for_peers = false;
  };

  static CurrentPhase& OfProcess() {
    static CurrentPhase phase;
    return phase;
  }

  // From now on the process is at `activity`. Counts as progress.
  void Enter(std::string activity, bool waits_for_peers = false) {
    Progress::OfProcess().Add();
    MutexLock lock(mutex_);
    phase_ = {std::move(activity), waits_for_peers};
    describe_ = nullptr;
  }

  // From now on, until the next Enter, `describe` says what the process is at. Called from any thread, must
  // not call back.
  void DescribeBy(std::function<Phase()> describe) {
    Progress::OfProcess().Add();
    MutexLock lock(mutex_);
    describe_ = std::move(describe);
  }

  Phase phase() const {
    MutexLock lock(mutex_);
    return describe_ ? describe_() : phase_;
  }

 private:
  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = {"starting"};
  std::function<Phase()> describe_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
