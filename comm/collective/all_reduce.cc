#include "comm/collective/all_reduce.h"

#include "comm/collective/members.h"
#include "comm/collective/run_collective.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/all_reduce_schedule.h"

namespace medley {

absl::Status AllReduce(Transport& transport, const CollectiveCall& call, const CollectiveChoice& choice,
                       absl::Span<float> values) {
  ASSIGN_OR_RETURN(const int own, PlaceAmong(transport, call.members));
  ASSIGN_OR_RETURN(const CollectiveSchedule schedule,
                   AllReduceSchedule(static_cast<int>(call.members.size()), values.size(), choice, own));
  return RunCollective(transport, schedule, call.members, call.channel, values, call.wire, call.deadline);
}

}  // namespace medley
