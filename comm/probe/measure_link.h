#pragma once
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace medley {

// What a link between two ranks does, as a cost model takes it: a message of n bytes takes
// latency_seconds + n / bandwidth_bytes_per_second.
struct LinkMeasurement {
  double latency_seconds = 0;               // half of a round trip of 8 bytes; median
  double bandwidth_bytes_per_second = 0;    // of 4 MiB one way, latency taken off; median
  double all_reduce_bytes_per_second = 0;   // 8 MiB / time of a ring all-reduce over the two; median
};

enum class ProbeRole { kLeader, kFollower };

// Measures the link between this rank and `peer`, which calls it at the same time with the other role. Both
// get the leader's figures. Takes about a tenth of a second on a fast link, and on a slow one as long as
// three messages of each kind take. Uses MessageTag::Kind::kProbe and, for the ring, the last channel of
// kReduce; nothing else should run on the link. Blocks. Errors: those of Transport; FailedPrecondition: both
// ranks have one role.
absl::StatusOr<LinkMeasurement> MeasureLink(Transport& transport, int peer, ProbeRole role,
                                            absl::Time deadline);

}  // namespace medley
