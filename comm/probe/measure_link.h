#pragma once
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/probe/link_prober.h"
#include "comm/transport/transport.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// What a link between two ranks does: by size of the message as a cost model takes it, and in three numbers
// for people.
struct LinkMeasurement {
  double latency_seconds = 0;  // half of a round trip of 8 bytes; median
  // The bandwidth of the largest message that was tried, one way, latency taken off; median.
  double bandwidth_bytes_per_second = 0;
  double all_reduce_bytes_per_second =
      0;          // bytes / time of a ring all-reduce over the two, of the largest; median
  LinkCost cost;  // fitted to the medians by size; each has a point or more
};

// Measures the link between this rank and `peer`, which calls it at the same time with the other role. Both
// get the leader's figures. Messages of 8 bytes to 16 MiB, as far as they take no too long; the models go
// straight on from there. Takes about half a second on a fast link, and ten on one of 1 Mbit/s. Pairs may be
// measured at the same time as far as they share no link and no core. For what it uses, and what else may
// run, see LinkProber. Errors: those of Transport; FailedPrecondition: both ranks have one role;
// InvalidArgument: the peer's answer makes no sense.
absl::StatusOr<LinkMeasurement> MeasureLink(Transport& transport, int peer, ProbeRole role,
                                            absl::Time deadline);

}  // namespace medley
