#include "runtime/ir/collective/run_serially.h"

#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using Kind = CollectiveStep::Kind;

class SerialRun {
 public:
  SerialRun(const CollectiveSchedule& schedule, WireType wire, std::vector<std::vector<float>>& values)
      : schedule_(schedule), wire_(wire), values_(values), next_(schedule.members) {}

  // Each member goes as far as it can, in turns, until nobody can.
  absl::Status Run() {
    for (bool any = true; any;) {
      any = false;
      for (int member = 0; member < schedule_.members; ++member) {
        while (next_[member] < schedule_.steps[member].size() &&
               Do(member, schedule_.steps[member][next_[member]])) {
          ++next_[member];
          any = true;
        }
      }
    }
    for (int member = 0; member < schedule_.members; ++member) {
      if (next_[member] == schedule_.steps[member].size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("member ", member, " waits for ever in step ", next_[member]));
    }
    return absl::OkStatus();
  }

 private:
  // False: what it receives has not been sent.
  bool Do(int member, const CollectiveStep& step) {
    float* const own = values_[member].data() + step.range.begin;
    const int64_t count = step.range.size();
    if (step.Sends()) {
      std::vector<float> message(own, own + count);
      for (float& value : message) value = OnWire(value, wire_);
      if (step.kind == Kind::kSendFinal) std::copy(message.begin(), message.end(), own);
      mail_[{member, step.peer}].push_back(std::move(message));
      return true;
    }
    std::deque<std::vector<float>>& mail = mail_[{step.peer, member}];
    if (mail.empty()) return false;
    for (int64_t i = 0; i < count; ++i)
      own[i] = step.kind == Kind::kReceive ? mail.front()[i] : own[i] + mail.front()[i];
    mail.pop_front();
    return true;
  }

  const CollectiveSchedule& schedule_;
  const WireType wire_;
  std::vector<std::vector<float>>& values_;
  std::vector<size_t> next_;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> mail_;  // by (from, to)
};

}  // namespace

absl::Status RunSerially(const CollectiveSchedule& schedule, WireType wire,
                         std::vector<std::vector<float>>& values) {
  if (values.size() != static_cast<size_t>(schedule.members)) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " vectors for ", schedule.members, " members"));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].size() == static_cast<size_t>(schedule.elements)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("values[", i, "] has ", values[i].size(), " elements, not ", schedule.elements));
  }
  return SerialRun(schedule, wire, values).Run();
}

}  // namespace medley
