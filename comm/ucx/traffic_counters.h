#pragma once
#include <array>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace medley {

// What went to and came from every peer, by kind. Not thread-safe. A kind must be a named one.
class TrafficCounters {
 public:
  explicit TrafficCounters(int size) : peers_(size) {}

  void Sent(int peer, MessageTag::Kind kind, size_t bytes) {
    PeerTraffic& traffic = At(peer, kind);
    ++traffic.messages_sent;
    traffic.bytes_sent += bytes;
  }
  void Received(int peer, MessageTag::Kind kind, size_t bytes) {
    PeerTraffic& traffic = At(peer, kind);
    ++traffic.messages_received;
    traffic.bytes_received += bytes;
  }
  void Waited(int peer, MessageTag::Kind kind, absl::Duration waited) {
    At(peer, kind).wait_seconds += absl::ToDoubleSeconds(waited);
  }

  // By peer and kind, those that saw a message or a wait. `path_of` a peer is asked once a peer.
  std::vector<PeerTraffic> Snapshot(absl::FunctionRef<std::string(int peer)> path_of) const;

 private:
  static constexpr int kKinds = static_cast<int>(MessageTag::Kind::kReshard) + 1;
  PeerTraffic& At(int peer, MessageTag::Kind kind) { return peers_[peer][static_cast<int>(kind)]; }

  std::vector<std::array<PeerTraffic, kKinds>> peers_;
};

}  // namespace medley
