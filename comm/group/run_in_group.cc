#include "comm/group/run_in_group.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/collective/gone_watch.h"
#include "comm/group/patience.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Submit(DeviceGroup& group, const GroupExchangeOf& exchange, Fence after) {
  switch (exchange.kind) {
    case GroupExchangeOf::Kind::kSum:
      return group.Sum(exchange.values, after);
    case GroupExchangeOf::Kind::kScatter:
      return group.Scatter(exchange.values, exchange.ends, after);
    case GroupExchangeOf::Kind::kGather:
      return group.Gather(exchange.values, exchange.ends, after);
  }
  return absl::InternalError("no such exchange");
}

absl::Status Await(DeviceGroup& group, Transport& transport, absl::Span<const int> members, uint16_t channel,
                   absl::Time deadline) {
  Patience patience;
  GoneWatch watch(transport, members, channel);
  while (true) {
    ASSIGN_OR_RETURN(const bool done, group.Done());
    if (done) return absl::OkStatus();
    if (Now() >= deadline) return absl::DeadlineExceededError("the devices have not finished it in time");
    patience.Wait();
    RETURN_IF_ERROR(watch.Check(patience.slept()));
  }
}

}  // namespace

absl::Status RunInGroup(DeviceGroup& group, DeviceQueue& queue, Transport& transport,
                        absl::Span<const int> members, uint16_t channel, const GroupExchangeOf& exchange,
                        Fence after, const std::function<void()>& when_ready, absl::Time deadline) {
  absl::Status status = Submit(group, exchange, after);
  if (status.ok()) status = queue.Wait(after);
  if (status.ok()) {
    if (when_ready) when_ready();
    status = Await(group, transport, members, channel, deadline);
  }
  if (status.ok()) return status;
  group.Abort();
  const bool gathers = exchange.kind == GroupExchangeOf::Kind::kGather;
  return Annotate(status, absl::StrCat(gathers ? "gathering of ranks " : "sum of ranks ",
                                       absl::StrJoin(members, ", "), " in their devices' memory"));
}

}  // namespace medley
