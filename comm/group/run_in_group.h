#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/device/device_group.h"
#include "runtime/device/device_queue.h"

namespace medley {

// An exchange of a group (DeviceGroup); `ends`: of the members' parts, for all but a sum.
struct GroupExchangeOf {
  enum class Kind { kSum, kScatter, kGather };
  Kind kind = Kind::kSum;
  Slice values;
  std::vector<int64_t> ends;
};

// The group, whose members are the ranks `members`, exchanges what its devices have when `queue` reaches `after`.
// Blocks until that is done. `when_ready` (may be null): from now on it waits for the others alone. Every member calls it
// with the same arguments but the values; `channel` is as for RunCollective, and no other exchange has it meanwhile.
//
// Errors, after each of which the group is aborted and `values` are of no use:
//   DeadlineExceeded  the others have not come, or the devices have not finished; names them.
//   Unavailable       a member is gone; names it. Cancelled and others: as of Transport.
//   others            those of the queue and of DeviceGroup.
absl::Status RunInGroup(DeviceGroup& group, DeviceQueue& queue, Transport& transport,
                        absl::Span<const int> members, uint16_t channel, const GroupExchangeOf& exchange,
                        Fence after, const std::function<void()>& when_ready, absl::Time deadline);

}  // namespace medley
