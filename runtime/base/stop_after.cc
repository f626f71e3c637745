#include "runtime/base/stop_after.h"

#include "runtime/base/clock.h"

namespace medley {

StopAfter::StopAfter(std::atomic<bool>& stop, absl::Duration limit) {
  if (limit == absl::InfiniteDuration()) return;
  thread_ = std::thread([this, &stop, deadline = Now() + limit] {
    MutexLock lock(mutex_);
    if (!changed_.WaitUntil(mutex_, deadline, [&] { return ended_; })) stop = true;
  });
}

StopAfter::~StopAfter() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

}  // namespace medley
