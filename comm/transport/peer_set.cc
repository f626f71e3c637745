#include "comm/transport/peer_set.h"

#include "absl/strings/str_cat.h"

namespace medley {

absl::StatusOr<std::vector<bool>> PeerSet(const std::optional<std::vector<int>>& peers, int rank, int size) {
  std::vector<bool> is_peer(size, !peers.has_value());
  is_peer[rank] = false;
  if (!peers.has_value()) return is_peer;
  for (size_t i = 0; i < peers->size(); ++i) {
    const int peer = (*peers)[i];
    if (peer < 0 || peer >= size || peer == rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("peers[", i, "] is ", peer, ", not in [0, ", size, ") without this rank, ", rank));
    }
    if (is_peer[peer])
      return absl::InvalidArgumentError(absl::StrCat("peers[", i, "] is ", peer, ", which is there before"));
    is_peer[peer] = true;
  }
  return is_peer;
}

}  // namespace medley
