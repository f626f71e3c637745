#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// What a forward keeps for its backward goes to host memory behind it and comes back ahead. Passes are indices into
// the unit's order.
struct StashTrip {
  int forward = 0;         // behind which it is stored
  int fetched_before = 0;  // the gradient before its own: the fetch has that one's time
  int gradient = 0;        // the first that needs it
};

// Which trips a unit's stashes make in a step. One that would hardly be away makes none, and those of a chunk
// make none at all unless it needs fewer stashes on the device with them: three do where enough micro-batches are on
// their way, one that is computed with, one that is being stored and one that is being fetched. `order`: all that
// the unit does, receiving too; `visits`: how routes pass it; `chunks`: how many it has. Pure.
std::vector<StashTrip> StashTripsOf(const UnitOrder& order, const Visits& visits, int chunks);

}  // namespace medley
