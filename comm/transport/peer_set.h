#pragma once
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace medley {

// Of each rank of `size`, whether `rank` exchanges messages with it: `peers`, in any order; nothing: all others.
// InvalidArgument: one is not in [0, size), or is `rank`, or is there twice; names its place.
absl::StatusOr<std::vector<bool>> PeerSet(const std::optional<std::vector<int>>& peers, int rank, int size);

}  // namespace medley
