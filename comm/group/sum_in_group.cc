#include "comm/group/sum_in_group.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/collective/gone_watch.h"
#include "comm/group/patience.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// So long without an end, and it may be that a member is gone.
constexpr absl::Duration kSuspicious = absl::Milliseconds(50);

absl::Status AwaitSum(DeviceGroup& group, Transport& transport, absl::Span<const int> members,
                      uint16_t channel, absl::Time deadline) {
  Patience patience;
  std::optional<GoneWatch> watch;
  while (true) {
    ASSIGN_OR_RETURN(const bool done, group.Done());
    if (done) return absl::OkStatus();
    if (Now() >= deadline) return absl::DeadlineExceededError("the devices have not finished it in time");
    patience.Wait();
    if (patience.slept() < kSuspicious) continue;
    if (!watch.has_value()) watch.emplace(transport, members, channel);
    RETURN_IF_ERROR(watch->Check());
  }
}

}  // namespace

absl::Status SumInGroup(DeviceGroup& group, DeviceQueue& queue, Transport& transport,
                        absl::Span<const int> members, uint16_t channel, const Slice& values, Fence after,
                        const std::function<void()>& when_ready, absl::Time deadline) {
  absl::Status status = group.Sum(values, after);
  if (status.ok()) status = queue.Wait(after);
  if (status.ok()) {
    if (when_ready) when_ready();
    status = AwaitSum(group, transport, members, channel, deadline);
  }
  if (status.ok()) return status;
  group.Abort();
  return Annotate(status,
                  absl::StrCat("sum of ranks ", absl::StrJoin(members, ", "), " in their devices' memory"));
}

}  // namespace medley
