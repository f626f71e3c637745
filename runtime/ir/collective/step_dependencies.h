#pragma once
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// By step of one member: the steps before it that it must follow, descending: those whose ranges meet its
// own, unless both send. What lies before a receive that covers the whole range is left out, since that one
// follows it already.
std::vector<std::vector<int>> StepDependencies(absl::Span<const CollectiveStep> steps);

}  // namespace medley
