#pragma once
#include "absl/types/span.h"
#include "runtime/ir/collective/schedule_builder.h"

namespace medley {

// Rings over `ring` (members in ring order), each of which owns the slice of the same place in `slices`. A
// slice goes around in ring.size() - 1 rounds from `first_round` on: summed from its owner's successor to its
// owner, or copied from its owner on. Each member sends to its successor alone.
void AddRingReduceScatter(ScheduleBuilder& builder, absl::Span<const int> ring,
                          absl::Span<const ElementRange> slices, int first_round);
void AddRingAllGather(ScheduleBuilder& builder, absl::Span<const int> ring,
                      absl::Span<const ElementRange> slices, int first_round);

}  // namespace medley
