#include "comm/collective/collectives.h"

#include "absl/strings/str_cat.h"
#include "comm/collective/members.h"
#include "comm/collective/run_collective.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"
#include "runtime/ir/collective/tree_schedule.h"

namespace medley {
namespace {

int MembersOf(const CollectiveCall& call) { return static_cast<int>(call.members.size()); }

absl::Status Run(Transport& transport, const CollectiveCall& call, const CollectiveSchedule& schedule,
                 absl::Span<float> values) {
  return RunCollective(transport, schedule, call.members, call.channel, values, call.wire, call.deadline);
}

}  // namespace

absl::Status AllReduce(Transport& transport, const CollectiveCall& call, const CollectiveChoice& choice,
                       absl::Span<float> values) {
  ASSIGN_OR_RETURN(const int own, PlaceAmong(transport, call.members));
  ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                   AllReduceSchedule(MembersOf(call), values.size(), choice, own));
  return Run(transport, call, schedule, values);
}

absl::Status ReduceScatter(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                           absl::Span<float> values) {
  RETURN_IF_ERROR(CheckGroupShape(shape, MembersOf(call)));
  ASSIGN_OR_RETURN(const int own, PlaceAmong(transport, call.members));
  return Run(transport, call, RingReduceScatter(MembersOf(call), values.size(), shape, own), values);
}

absl::Status AllGather(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                       absl::Span<float> values) {
  RETURN_IF_ERROR(CheckGroupShape(shape, MembersOf(call)));
  ASSIGN_OR_RETURN(const int own, PlaceAmong(transport, call.members));
  return Run(transport, call, RingAllGather(MembersOf(call), values.size(), shape, own), values);
}

absl::Status Broadcast(Transport& transport, const CollectiveCall& call, int root, const GroupShape& shape,
                       absl::Span<float> values) {
  const int members = MembersOf(call);
  RETURN_IF_ERROR(CheckGroupShape(shape, members));
  if (root < 0 || root >= members) {
    return absl::InvalidArgumentError(absl::StrCat("root is ", root, ", not in [0, ", members, ")"));
  }
  const int64_t elements = values.size();
  ASSIGN_OR_RETURN(const int own, PlaceAmong(transport, call.members));
  return Run(transport, call,
             elements < kSmallestChainElements ? TreeBroadcast(members, elements, root, shape, own)
                                               : ChainBroadcast(members, elements, root, shape, own),
             values);
}

}  // namespace medley
