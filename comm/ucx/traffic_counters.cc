#include "comm/ucx/traffic_counters.h"

namespace medley {

std::vector<PeerTraffic> TrafficCounters::Snapshot(absl::FunctionRef<std::string(int peer)> path_of) const {
  std::vector<PeerTraffic> all;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    std::string path;
    for (int kind = 0; kind < kKinds; ++kind) {
      const PeerTraffic& seen = peers_[peer][kind];
      if (seen.messages_sent + seen.messages_received == 0 && seen.wait_seconds == 0) continue;
      if (path.empty()) path = path_of(static_cast<int>(peer));
      all.push_back(seen);
      all.back().peer = static_cast<int>(peer);
      all.back().kind = static_cast<MessageTag::Kind>(kind);
      all.back().path = path;
    }
  }
  return all;
}

}  // namespace medley
