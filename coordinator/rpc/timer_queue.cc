#include "coordinator/rpc/timer_queue.h"

#include <utility>

#include "runtime/base/clock.h"

namespace medley {

TimerQueue::TimerQueue() : thread_([this] { Run(); }) {}

TimerQueue::~TimerQueue() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void TimerQueue::At(absl::Time when, std::function<void()> what) {
  MutexLock lock(mutex_);
  due_.emplace(when, std::move(what));
  changed_.NotifyAll();
}

void TimerQueue::Run() {
  while (true) {
    std::function<void()> what;
    {
      MutexLock lock(mutex_);
      while (!ended_ && (due_.empty() || due_.begin()->first > Now())) {
        const absl::Time next = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
        changed_.WaitUntil(mutex_, next,
                           [&] { return ended_ || (!due_.empty() && due_.begin()->first < next); });
      }
      if (ended_) return;
      what = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    what();
  }
}

}  // namespace medley
