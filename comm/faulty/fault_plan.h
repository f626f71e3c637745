#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"

namespace medley {

// What goes wrong on the way to and from one peer.
struct LinkFaults {
  // Each send and each receive starts late by a random time in [0, maximum_delay], and never before an
  // earlier one of the same tag. So messages of different tags overtake each other.
  absl::Duration maximum_delay = absl::ZeroDuration();
  // A send starts when the link has had the time for it and for those before it; none: at once.
  std::optional<double> bytes_per_second;
  // This many operations (sends and receives) take place, the later ones never start; none: all take place.
  std::optional<uint64_t> stall_after_operations;
};

struct FaultOptions {
  uint64_t seed = 0;
  LinkFaults every_link;
  std::map<int, LinkFaults> by_peer;  // instead of every_link
  // The rank vanishes in its n-th operation (1: the first), whatever the peer; none: never.
  std::optional<uint64_t> vanish_at_operation;
};

// Decides what happens to each operation of one rank. Its answers follow from the options, the rank and the
// order of the calls for each peer alone, and from `now` for slow links. Not thread-safe.
class FaultPlan {
 public:
  FaultPlan(const FaultOptions& options, int rank);

  enum class Direction { kSend, kReceive };
  struct Verdict {
    enum class Kind { kStart, kStall, kVanish } kind = Kind::kStart;
    absl::Time due = absl::InfinitePast();  // of kStart: not before; InfinitePast: at once
  };
  // The next operation: `bytes` with `peer`.
  Verdict Next(Direction direction, int peer, uint64_t bytes, absl::Time now);

 private:
  struct Link {
    uint64_t operations = 0;
    absl::Time busy_until = absl::InfinitePast();
  };
  const FaultOptions options_;
  const int rank_;
  uint64_t operations_ = 0;
  std::map<int, Link> links_;
};

}  // namespace medley
