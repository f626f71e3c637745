#include "runtime/ir/program/stash_trips.h"

#include <map>
#include <utility>

namespace medley {
namespace {

// Passes of the same chunk between a forward and the fetch: with fewer, nothing would compute beside the copies.
constexpr int kFewestPassesAway = 2;

// How many stashes a chunk has on the device if those of `trips` go home: as AssignBuffers counts them.
int StashesOf(const UnitOrder& order, const Visits& visits, int chunk, const std::vector<StashTrip>& trips) {
  std::vector<bool> stored(order.size(), false), fetched(order.size(), false);
  for (const StashTrip& trip : trips) {
    if (visits[order[trip.forward].visit].chunk == chunk)
      stored[trip.forward] = fetched[trip.fetched_before] = true;
  }
  int all = 0, free = 0, being_stored = 0;
  const auto take = [&] {
    if (free > 0) {
      --free;
    } else {
      ++all;
    }
    free += std::exchange(being_stored, 0);
  };
  for (size_t pass = 0; pass < order.size(); ++pass) {
    const UnitOp& op = order[pass];
    if (fetched[pass]) take();
    if (visits[op.visit].chunk != chunk) continue;
    if (op.kind == UnitOp::Kind::kForward) {
      take();
      if (stored[pass]) free += std::exchange(being_stored, 1);
    }
    if (op.kind == UnitOp::Kind::kBackward || op.kind == UnitOp::Kind::kWeightGradient) ++free;
  }
  return all;
}

}  // namespace

std::vector<StashTrip> StashTripsOf(const UnitOrder& order, const Visits& visits, int chunks) {
  std::vector<std::vector<StashTrip>> by_chunk(chunks);
  std::map<std::pair<int, int>, int> forward;  // by visit and micro-batch
  int gradient_before = -1;
  for (int pass = 0; pass < static_cast<int>(order.size()); ++pass) {
    const UnitOp& op = order[pass];
    if (op.kind == UnitOp::Kind::kForward) forward[{op.visit, op.micro_batch}] = pass;
    if (op.kind != UnitOp::Kind::kBackward && op.kind != UnitOp::Kind::kInputGradient) continue;
    const int chunk = visits[op.visit].chunk;
    const StashTrip trip{forward[{op.visit, op.micro_batch}], gradient_before, pass};
    int away = 0;
    for (int between = trip.forward + 1; between < gradient_before && away < kFewestPassesAway; ++between)
      away += IsPass(order[between].kind) && visits[order[between].visit].chunk == chunk;
    if (away >= kFewestPassesAway) by_chunk[chunk].push_back(trip);
    gradient_before = pass;
  }
  std::vector<StashTrip> trips;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::vector<StashTrip>& own = by_chunk[chunk];
    if (StashesOf(order, visits, chunk, own) < StashesOf(order, visits, chunk, {}))
      trips.insert(trips.end(), own.begin(), own.end());
  }
  return trips;
}

}  // namespace medley
