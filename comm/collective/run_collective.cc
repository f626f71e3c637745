#include "comm/collective/run_collective.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/collective/gone_watch.h"
#include "comm/collective/members.h"
#include "comm/collective/message_stream.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Looks at all streams so many times before it sleeps on one of them, giving others the core in between.
constexpr int kLooks = 200;
// Then it sleeps on the stream that is furthest behind, but looks at the others in growing intervals: nothing
// says which message comes next, and a peer may wait for what another stream makes possible.
constexpr absl::Duration kFirstSleep = absl::Microseconds(100), kLongestSleep = absl::Milliseconds(5);

// Sends first: where the receiver does the copying, posting a receive may take as long as its message, and
// the peer could do its copying at the same time.
std::vector<MessageStream> StreamsOf(const StreamContext& context, absl::Span<const int> members) {
  std::map<std::pair<bool, int>, std::vector<int>> by_way;
  for (size_t i = 0; i < context.steps.size(); ++i) {
    by_way[{!context.steps[i].Sends(), context.steps[i].peer}].push_back(static_cast<int>(i));
  }
  std::vector<MessageStream> streams;
  streams.reserve(by_way.size());
  for (auto& [way, steps] : by_way) streams.emplace_back(context, members[way.second], std::move(steps));
  return streams;
}

// The one to wait for: what came first in the order of steps, receives before sends, which the peer's
// receives bring along.
MessageStream* FurthestBehind(std::vector<MessageStream>& streams) {
  MessageStream* behind = nullptr;
  const auto place = [](const MessageStream& stream) {
    return std::pair(stream.sends(), stream.OldestStep());
  };
  for (MessageStream& stream : streams) {
    if (!stream.Waits()) continue;
    if (behind == nullptr || place(stream) < place(*behind)) behind = &stream;
  }
  return behind;
}

// Runs the streams of one collective to their end.
class CollectiveRun {
 public:
  CollectiveRun(const StreamContext& context, absl::Span<const int> members, absl::Time deadline)
      : context_(context),
        deadline_(deadline),
        streams_(StreamsOf(context, members)),
        watch_(context.transport, members, context.channel) {}

  absl::Status Run() {
    while (true) {
      bool any = false, finished = true;
      for (MessageStream& stream : streams_) {
        ASSIGN_OR_RETURN(const bool landed, stream.Land(deadline_));
        any |= landed;
      }
      for (MessageStream& stream : streams_) {
        ASSIGN_OR_RETURN(const bool launched, stream.LaunchAll());
        any |= launched;
        finished &= stream.Finished();
      }
      if (finished) return absl::OkStatus();
      if (any) {
        looks_ = 0;
        slept_ = absl::ZeroDuration();
      } else {
        RETURN_IF_ERROR(Idle());
      }
    }
  }

 private:
  absl::Status Idle() {
    const absl::Time now = Now();
    if (++looks_ < kLooks && now < deadline_) {
      std::this_thread::yield();
      return absl::OkStatus();
    }
    MessageStream* const behind = FurthestBehind(streams_);
    if (behind == nullptr) return absl::OkStatus();                               // it came just now
    const absl::Duration sleep = std::clamp(slept_, kFirstSleep, kLongestSleep);  // so they double
    RETURN_IF_ERROR(behind->AwaitOldest(now + sleep, deadline_));
    slept_ += sleep;
    return watch_.Check(slept_);
  }

  const StreamContext& context_;
  const absl::Time deadline_;
  std::vector<MessageStream> streams_;
  int looks_ = 0;                                // in vain, since there was something to do
  absl::Duration slept_ = absl::ZeroDuration();  // likewise
  GoneWatch watch_;
};

}  // namespace

absl::Status RunCollective(Transport& transport, const CollectiveSchedule& schedule,
                           absl::Span<const int> members, uint16_t channel, absl::Span<float> values,
                           WireType wire, absl::Time deadline) {
  ASSIGN_OR_RETURN(const int place, PlaceAmong(transport, members));
  if (schedule.members != static_cast<int>(members.size()) ||
      schedule.elements != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the schedule is for ", schedule.members, " members and ",
                                                   schedule.elements, " values, not ", members.size(),
                                                   " and ", values.size()));
  }
  if (schedule.only.value_or(place) != place) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule has the steps of member ", *schedule.only, " alone, not of ", place));
  }
  const std::vector<CollectiveStep>& steps = schedule.steps[place];
  if (steps.empty()) return absl::OkStatus();
  std::vector<bool> shares_memory(members.size());
  std::vector<bool> is_known(members.size());
  for (const CollectiveStep& step : steps) {
    if (!is_known[step.peer]) shares_memory[step.peer] = transport.SharesMemory(members[step.peer]);
    is_known[step.peer] = true;
  }
  StepProgress progress(steps, shares_memory);
  const StreamContext context{transport, steps, progress, channel, wire, values, shares_memory};
  return CollectiveRun(context, members, deadline).Run();
}

}  // namespace medley
