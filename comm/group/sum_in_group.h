#pragma once
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/device/device_group.h"
#include "runtime/device/device_queue.h"

namespace medley {

// What the device has in `values` when `queue` reaches `after` becomes its sum over the group, whose members
// are the ranks `members`. Blocks until it is there. `when_ready` (may be null): from now on it waits for the
// others alone. Every member calls it with the same arguments but `values`; `channel` is as for
// RunCollective, and no other sum has it meanwhile.
//
// Errors, after each of which the group is aborted and `values` are of no use:
//   DeadlineExceeded  the others have not come, or the devices have not finished; names them.
//   Unavailable       a member is gone; names it. Cancelled and others: as of Transport.
//   others            those of the queue and of DeviceGroup.
absl::Status SumInGroup(DeviceGroup& group, DeviceQueue& queue, Transport& transport,
                        absl::Span<const int> members, uint16_t channel, const Slice& values, Fence after,
                        const std::function<void()>& when_ready, absl::Time deadline);

}  // namespace medley
