#include "runtime/ir/collective/check_schedule.h"

#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Kind = CollectiveStep::Kind;

std::string Describe(int member, size_t index, const CollectiveStep& step) {
  const char* const verb = step.Sends()                  ? " sends ["
                           : step.kind == Kind::kReceive ? " receives ["
                                                         : " adds [";
  return absl::StrCat("member ", member, " step ", index, verb, step.range.begin, ", ", step.range.end, ") ",
                      step.Sends() ? "to " : "from ", step.peer, " in round ", step.round);
}

absl::Status CheckSteps(const CollectiveSchedule& schedule, int member) {
  const std::vector<CollectiveStep>& steps = schedule.steps[member];
  for (size_t i = 0; i < steps.size(); ++i) {
    const CollectiveStep& step = steps[i];
    const auto fail = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(member, i, step), ": ", why));
    };
    if (step.peer < 0 || step.peer >= schedule.members || step.peer == member)
      return fail("there is no such peer");
    if (step.range.begin < 0 || step.range.size() <= 0 || step.range.end > schedule.elements) {
      return fail(absl::StrCat("the range is empty or not inside the ", schedule.elements, " elements"));
    }
    if (step.round < (i > 0 ? steps[i - 1].round : 0)) return fail("rounds must not fall");
    for (size_t j = i; j-- > 0 && steps[j].round == step.round;) {
      if (step.range.Meets(steps[j].range) && !(step.Sends() && steps[j].Sends())) {
        return fail(absl::StrCat("step ", j, " touches the same elements in the same round"));
      }
    }
  }
  return absl::OkStatus();
}

// Whether sends and receives of each pair, in order, are the two ends of messages.
absl::Status CheckMessages(const CollectiveSchedule& schedule) {
  std::map<std::pair<int, int>, std::deque<size_t>> open;  // sends that nobody has received, by (from, to)
  for (int member = 0; member < schedule.members; ++member) {
    for (size_t i = 0; i < schedule.steps[member].size(); ++i) {
      const CollectiveStep& step = schedule.steps[member][i];
      if (step.Sends()) open[{member, step.peer}].push_back(i);
    }
  }
  for (int member = 0; member < schedule.members; ++member) {
    for (size_t i = 0; i < schedule.steps[member].size(); ++i) {
      const CollectiveStep& step = schedule.steps[member][i];
      if (step.Sends()) continue;
      std::deque<size_t>& sends = open[{step.peer, member}];
      if (sends.empty())
        return absl::InvalidArgumentError(absl::StrCat(Describe(member, i, step), ": nobody sends this"));
      const CollectiveStep& send = schedule.steps[step.peer][sends.front()];
      const bool kinds = (send.kind == Kind::kSend) == (step.kind == Kind::kReceiveAndAdd);
      if (!kinds || !(send.range == step.range) || send.round != step.round) {
        return absl::InvalidArgumentError(absl::StrCat(Describe(member, i, step), ": but ",
                                                       Describe(step.peer, sends.front(), send),
                                                       kinds ? "" : ", to be taken otherwise"));
      }
      sends.pop_front();
    }
  }
  for (const auto& [pair, sends] : open) {
    if (sends.empty()) continue;
    const CollectiveStep& send = schedule.steps[pair.first][sends.front()];
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(pair.first, sends.front(), send), ": nobody receives this"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSchedule(const CollectiveSchedule& schedule) {
  if (schedule.members < 1 || schedule.elements < 0 ||
      schedule.steps.size() != static_cast<size_t>(schedule.members)) {
    return absl::InvalidArgumentError(absl::StrCat("members is ", schedule.members, ", elements is ",
                                                   schedule.elements, ", with steps of ",
                                                   schedule.steps.size(), " members"));
  }
  for (int member = 0; member < schedule.members; ++member) RETURN_IF_ERROR(CheckSteps(schedule, member));
  return CheckMessages(schedule);
}

}  // namespace medley
