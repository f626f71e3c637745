#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// AllReduce (collectives.h) by an even ring in the order of `members` (ranks, ascending, this one among
// them), f32 on the wire: member i alone sums slice i, in the order of the members i + 1, i + 2, ..., and
// around.
absl::Status RingAllReduce(Transport& transport, absl::Span<const int> members, uint16_t channel,
                           absl::Span<float> values, absl::Time deadline);

}  // namespace medley
