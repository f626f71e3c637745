#pragma once
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/device/device_group.h"

namespace medley {

// What came of joining: a group, or why there is none, the same words at all members.
struct JoinedGroup {
  std::unique_ptr<DeviceGroup> group;
  std::string failure;
};

// Brings `members` (ranks, ascending, this one among them) together. All of them call it; a rank that is in
// several groups, in one order for all. All have the group or none has: a member that cannot join tells the
// others, who then wait no longer for it. A member exchanges messages with those alone that are its neighbours in
// their ScalarTree (runtime/ir/collective). Blocks, for the library at most until half of the time to `deadline`
// has passed. `number`: of this rank in the group, unlike every other member's; by itself its place among them.
//
// Errors: of the transport; the group is then aborted.
absl::StatusOr<JoinedGroup> JoinGroup(Transport& transport, GroupLibrary& library,
                                      absl::Span<const int> members, absl::Time deadline,
                                      std::optional<int> number = std::nullopt);

}  // namespace medley
