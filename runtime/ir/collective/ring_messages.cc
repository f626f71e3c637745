#include "runtime/ir/collective/ring_messages.h"

namespace medley {
namespace {

// In round t place q sends the slice of place q - behind - t.
void AddTurn(ScheduleBuilder& builder, absl::Span<const int> ring, absl::Span<const ElementRange> slices,
             int first_round, int behind, ScheduleBuilder::Receiver receiver) {
  const int n = static_cast<int>(ring.size());
  for (int round = 0; round + 1 < n; ++round) {
    for (int place = 0; place < n; ++place) {
      const int slice = (place - behind - round + 2 * n) % n;
      builder.Message(ring[place], ring[(place + 1) % n], slices[slice], first_round + round, receiver);
    }
  }
}

}  // namespace

void AddRingReduceScatter(ScheduleBuilder& builder, absl::Span<const int> ring,
                          absl::Span<const ElementRange> slices, int first_round) {
  AddTurn(builder, ring, slices, first_round, /*behind=*/1, ScheduleBuilder::Receiver::kAdds);
}

void AddRingAllGather(ScheduleBuilder& builder, absl::Span<const int> ring,
                      absl::Span<const ElementRange> slices, int first_round) {
  AddTurn(builder, ring, slices, first_round, /*behind=*/0, ScheduleBuilder::Receiver::kCopies);
}

}  // namespace medley
