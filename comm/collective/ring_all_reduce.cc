#include "comm/collective/ring_all_reduce.h"

#include "comm/collective/collectives.h"

namespace medley {

absl::Status RingAllReduce(Transport& transport, absl::Span<const int> members, uint16_t channel,
                           absl::Span<float> values, absl::Time deadline) {
  return AllReduce(transport, {members, channel, WireType::kF32, deadline}, {}, values);
}

}  // namespace medley
