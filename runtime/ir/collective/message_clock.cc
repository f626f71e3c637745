#include "runtime/ir/collective/message_clock.h"

#include <algorithm>

#include "runtime/ir/collective/chunk_size.h"

namespace medley {

MessageClock::MessageClock(const CollectiveProblem& problem)
    : problem_(problem),
      boundaries_(BoundariesOf(problem)),
      out_free_(problem.members * (boundaries_.size() + 1)),
      in_free_(out_free_.size()) {}

MessageClock::Cost MessageClock::CostOf(int from, int to, int64_t elements, bool exchanged) const {
  const LinkCost* const link = problem_.Link(from, to);
  if (link == nullptr) return {};
  const LinkModel& model = exchanged ? link->exchange : link->transfer;
  const double bytes = problem_.wire_bytes_per_element * static_cast<double>(elements);
  const double whole = model.Seconds(bytes);
  const int64_t chunks = elements > 0 ? ChunksOf(elements) : 1;
  const double chunk = chunks == 1 ? whole : model.Seconds(bytes / static_cast<double>(chunks));
  return {chunk, whole, whole - std::min(whole, model.LatencySeconds())};
}

MessageClock::Times MessageClock::Send(int from, int to, const Cost& cost, const Times& ready) {
  size_t out = from, in = to;
  for (size_t level = boundaries_.size(); level > 0; --level) {  // the outermost that lies between
    const Boundary& boundary = boundaries_[level - 1];
    if (boundary[from] == boundary[to]) continue;
    out = level * problem_.members + boundary[from];
    in = level * problem_.members + boundary[to];
    break;
  }
  const double start = std::max({ready.first_seconds, out_free_[out], in_free_[in]});
  out_free_[out] = in_free_[in] = start + cost.occupied_seconds;
  return {start + cost.chunk_seconds,
          std::max(start + cost.whole_seconds, ready.last_seconds + cost.chunk_seconds)};
}

}  // namespace medley
