#include "comm/collective/collectives.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "comm/collective/run_collective.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"
#include "runtime/ir/collective/tree_schedule.h"

namespace medley {
namespace {

int MembersOf(const CollectiveCall& call) { return static_cast<int>(call.members.size()); }

// This rank's place; of a rank that is none of the members nothing: RunCollective refuses it.
std::optional<int> PlaceOf(const Transport& transport, const CollectiveCall& call) {
  const auto own = std::find(call.members.begin(), call.members.end(), transport.rank());
  if (own == call.members.end()) return std::nullopt;
  return static_cast<int>(own - call.members.begin());
}

absl::Status Run(Transport& transport, const CollectiveCall& call, const CollectiveSchedule& schedule,
                 absl::Span<float> values) {
  return RunCollective(transport, schedule, call.members, call.channel, values, call.wire, call.deadline);
}

}  // namespace

absl::Status AllReduce(Transport& transport, const CollectiveCall& call, const CollectiveChoice& choice,
                       absl::Span<float> values) {
  ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                   AllReduceSchedule(MembersOf(call), values.size(), choice, PlaceOf(transport, call)));
  return Run(transport, call, schedule, values);
}

absl::Status ReduceScatter(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                           absl::Span<float> values) {
  RETURN_IF_ERROR(CheckGroupShape(shape, MembersOf(call)));
  return Run(transport, call,
             RingReduceScatter(MembersOf(call), values.size(), shape, PlaceOf(transport, call)), values);
}

absl::Status AllGather(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                       absl::Span<float> values) {
  RETURN_IF_ERROR(CheckGroupShape(shape, MembersOf(call)));
  return Run(transport, call, RingAllGather(MembersOf(call), values.size(), shape, PlaceOf(transport, call)),
             values);
}

absl::Status Broadcast(Transport& transport, const CollectiveCall& call, int root, const GroupShape& shape,
                       absl::Span<float> values) {
  const int members = MembersOf(call);
  RETURN_IF_ERROR(CheckGroupShape(shape, members));
  if (root < 0 || root >= members) {
    return absl::InvalidArgumentError(absl::StrCat("root is ", root, ", not in [0, ", members, ")"));
  }
  const int64_t elements = values.size();
  const std::optional<int> own = PlaceOf(transport, call);
  return Run(transport, call,
             elements < kSmallestChainElements ? TreeBroadcast(members, elements, root, shape, own)
                                               : ChainBroadcast(members, elements, root, shape, own),
             values);
}

}  // namespace medley
