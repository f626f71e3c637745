#pragma once
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/ir/link/link_model.h"

// What sums by a library of the devices take, as it was measured.
namespace medley {

// The seconds that `members`, 2 or more, take to sum a vector of `bytes`. Of a number that was not measured by the nearest that was, of
// two as near the larger: a ring over n has (n - 1) / (m - 1) times as many rounds as one over m, with messages as large where the
// vector is n / m times as large. `times`: not empty, sound.
double MeasuredSumSeconds(absl::Span<const AllReduceTimes> times, int members, double bytes);

// InvalidArgument: fewer than two members, numbers of members that do not ascend, no points, or those of CheckLinkModel;
// "[1].members: ..." names the place, to be put behind the name of the field.
absl::Status CheckAllReduceTimes(absl::Span<const AllReduceTimes> times);

}  // namespace medley
