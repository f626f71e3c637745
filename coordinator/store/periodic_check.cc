#include "coordinator/store/periodic_check.h"

#include "runtime/base/clock.h"

namespace medley {

PeriodicCheck::PeriodicCheck(Store& store, absl::Duration every,
                             std::function<void(const absl::Status&)> told)
    : store_(store), every_(every), told_(std::move(told)), thread_([this] { Loop(); }) {}

PeriodicCheck::~PeriodicCheck() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void PeriodicCheck::Loop() {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (changed_.WaitUntil(mutex_, Now() + every_, [&] { return stopping_; })) return;
    }
    told_(store_.Check());
  }
}

}  // namespace medley
