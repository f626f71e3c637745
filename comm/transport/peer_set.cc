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

bool IsAmong(const std::vector<bool>& is_peer, int peer) {
  return peer >= 0 && peer < static_cast<int>(is_peer.size()) && is_peer[peer];
}

absl::Status CheckPeer(absl::string_view name, int peer, int rank, int size, bool among_peers) {
  if (peer < 0 || peer >= size || peer == rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", peer, ", not in [0, ", size, ") without this rank, ", rank));
  }
  if (among_peers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", peer, ", no peer of this rank, ", rank));
}

}  // namespace medley
