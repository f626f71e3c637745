#include "comm/communicator/departures.h"

#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"

namespace medley {

Departures::Departures(std::function<void(const Departure&)> tell)
    : tell_(std::move(tell)), thread_([this] { Run(); }) {}

Departures::~Departures() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Departures::Add(Departure departure, absl::Duration delay) {
  MutexLock lock(mutex_);
  due_.push_back({Now() + delay, std::move(departure)});
  changed_.NotifyAll();
}

void Departures::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto first =
        std::min_element(due_.begin(), due_.end(), [](const Due& a, const Due& b) { return a.at < b.at; });
    if (first != due_.end() && first->at <= Now()) {
      const Departure departure = std::move(first->departure);
      due_.erase(first);
      mutex_.Unlock();
      tell_(departure);
      mutex_.Lock();
      continue;
    }
    const size_t known = due_.size();
    changed_.WaitUntil(mutex_, first == due_.end() ? absl::InfiniteFuture() : first->at,
                       [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || due_.size() != known; });
  }
}

}  // namespace medley
