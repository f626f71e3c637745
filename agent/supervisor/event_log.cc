#include "agent/supervisor/event_log.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

enum Kind : size_t { kLines, kMeasured, kOthers };

Kind KindOf(const v1::WorkerEvent& event) {
  return event.has_measured() ? kMeasured : event.event_case() == v1::WorkerEvent::kLog ? kLines : kOthers;
}

}  // namespace

void EventLog::Add(v1::WorkerEvent event) {
  event.set_number(++newest_);
  std::deque<uint64_t>& numbers = numbers_[KindOf(event)];
  if (numbers.size() >= limits_[KindOf(event)]) {
    const uint64_t oldest = numbers.front();
    numbers.pop_front();
    if (KindOf(event) == kLines) {
      // Who has heard all up to here does not hear this.
      events_.erase(std::exchange(dropped_line_, oldest));
      events_[oldest].set_log(absl::StrCat("lines of this worker were dropped here: the newest ",
                                           limits_[kLines], " are kept while nobody listens"));
    } else {
      events_.erase(oldest);
    }
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
