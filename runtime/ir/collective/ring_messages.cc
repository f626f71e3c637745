#include "runtime/ir/collective/ring_messages.h"

#include <vector>

namespace medley {
namespace {

// The places whose messages the builder's members have a part in, ascending: where it is for one member, that member and
// the one before it in the ring.
std::vector<int> SendingPlaces(const ScheduleBuilder& builder, absl::Span<const int> ring) {
  const int n = static_cast<int>(ring.size());
  std::vector<int> places;
  for (int place = 0; place < n; ++place) {
    const bool counts = !builder.only().has_value() || ring[place] == *builder.only() ||
                        ring[(place + 1) % n] == *builder.only();
    if (counts) places.push_back(place);
  }
  return places;
}

// In round t place q sends the slice of place q - behind - t.
void AddTurn(ScheduleBuilder& builder, absl::Span<const int> ring, absl::Span<const ElementRange> slices,
             int first_round, int behind, ScheduleBuilder::Receiver receiver) {
  const int n = static_cast<int>(ring.size());
  const std::vector<int> places = SendingPlaces(builder, ring);
  if (places.empty()) return;
  for (int round = 0; round + 1 < n; ++round) {
    for (const int place : places) {
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
