#pragma once
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace medley {

// Of each rank of `size`, whether `rank` exchanges messages with it: `peers`, in any order; nothing: all others.
// InvalidArgument: one is not in [0, size), or is `rank`, or is there twice; names its place.
absl::StatusOr<std::vector<bool>> PeerSet(const std::optional<std::vector<int>>& peers, int rank, int size);

// Whether `peer` is among them, where `is_peer` is such a set; false beyond it.
bool IsAmong(const std::vector<bool>& is_peer, int peer);

// InvalidArgument: `peer`, which messages call `name`, is not in [0, size), or is `rank`, or is not `among_peers`.
absl::Status CheckPeer(absl::string_view name, int peer, int rank, int size, bool among_peers);

}  // namespace medley
