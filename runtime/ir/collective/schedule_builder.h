#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// Collects messages with both their ends at once, so that they match. Messages of a pair keep the order of
// the calls within a round.
class ScheduleBuilder {
 public:
  ScheduleBuilder(int members, int64_t elements) : schedule_{members, elements, {}} {
    schedule_.steps.resize(members);
  }

  enum class Receiver { kAdds, kCopies };
  // Empty ranges make no message.
  void Message(int from, int to, ElementRange range, int round, Receiver receiver) {
    if (range.size() <= 0) return;
    const bool adds = receiver == Receiver::kAdds;
    using Kind = CollectiveStep::Kind;
    schedule_.steps[from].push_back({adds ? Kind::kSend : Kind::kSendFinal, to, range, round});
    schedule_.steps[to].push_back({adds ? Kind::kReceiveAndAdd : Kind::kReceive, from, range, round});
  }

  // In order of rounds.
  CollectiveSchedule Finish() && {
    for (std::vector<CollectiveStep>& steps : schedule_.steps) {
      std::stable_sort(steps.begin(), steps.end(),
                       [](const CollectiveStep& a, const CollectiveStep& b) { return a.round < b.round; });
    }
    return std::move(schedule_);
  }

 private:
  CollectiveSchedule schedule_;
};

}  // namespace medley
