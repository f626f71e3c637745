#pragma once
#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// The place of `rank` in `members`; as many as there are if it is none of them.
inline int PlaceOf(int rank, absl::Span<const int> members) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

// The place of `transport`'s rank in `members`, the ranks of a collective, in rank order.
// InvalidArgument: a member outside [0, size), members not strictly ascending, or this rank not among them.
absl::StatusOr<int> PlaceAmong(const Transport& transport, absl::Span<const int> members);

}  // namespace medley
