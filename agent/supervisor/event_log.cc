#include "agent/supervisor/event_log.h"

#include <utility>

namespace medley {
namespace {

size_t KindOf(const v1::WorkerEvent& event) {
  return event.has_measured() ? 1 : event.event_case() == v1::WorkerEvent::kLog ? 0 : 2;
}

}  // namespace

void EventLog::Add(v1::WorkerEvent event) {
  event.set_number(++newest_);
  std::deque<uint64_t>& numbers = numbers_[KindOf(event)];
  if (numbers.size() >= limits_[KindOf(event)]) {
    events_.erase(numbers.front());
    numbers.pop_front();
  }
  numbers.push_back(newest_);
  events_.emplace(newest_, std::move(event));
}

std::vector<v1::WorkerEvent> EventLog::After(uint64_t after, size_t limit) const {
  std::vector<v1::WorkerEvent> found;
  for (auto event = events_.upper_bound(after); event != events_.end() && found.size() < limit; ++event) {
    found.push_back(event->second);
  }
  return found;
}

}  // namespace medley
