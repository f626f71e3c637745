#pragma once
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// Collects messages with both their ends at once, so that they match. Messages of a pair keep the order of
// the calls within a round. With `only`, a member, steps of others are left out; who adds messages may then leave out
// those that it has no part in.
class ScheduleBuilder {
 public:
  ScheduleBuilder(int members, int64_t elements, std::optional<int> only)
      : schedule_{members, elements, {}, only} {
    schedule_.steps.resize(members);
  }

  std::optional<int> only() const { return schedule_.only; }

  enum class Receiver { kAdds, kCopies };
  // Empty ranges make no message.
  void Message(int from, int to, ElementRange range, int round, Receiver receiver) {
    if (range.size() <= 0) return;
    const bool adds = receiver == Receiver::kAdds;
    using Kind = CollectiveStep::Kind;
    Add(from, {adds ? Kind::kSend : Kind::kSendFinal, to, range, round});
    Add(to, {adds ? Kind::kReceiveAndAdd : Kind::kReceive, from, range, round});
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
  void Add(int member, const CollectiveStep& step) {
    if (member == schedule_.only.value_or(member)) schedule_.steps[member].push_back(step);
  }

  CollectiveSchedule schedule_;
};

}  // namespace medley
