#pragma once
#include "absl/status/status.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// Whether members that run the schedule understand each other and all come to an end. Says nothing about what
// they compute; that is for RunSerially. InvalidArgument, with member and step:
//  - a peer that is none, a range that is empty or not inside the vector, a round that is negative or falls;
//  - two steps of a member in one round where one writes what the other touches;
//  - a message without its other end, or whose ends differ in range, round or kind.
//
// That no members wait for each other in a circle follows: a message waits only for messages of earlier
// rounds and for those before it on its own way, so the first that is left of the lowest round can always go,
// however the executor cuts messages and however few it has under way.
absl::Status CheckSchedule(const CollectiveSchedule& schedule);

}  // namespace medley
