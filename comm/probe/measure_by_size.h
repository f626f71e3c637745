#pragma once
#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "runtime/ir/link/link_model.h"

// What is measured of a link and how often: decided by what was measured so far and nothing else, so that a
// slow link is done within seconds and a fast one is measured well.
namespace medley {

// Seconds of each of `repetitions` messages of `bytes`: half of what was waited for.
using MeasureSize = absl::FunctionRef<absl::StatusOr<std::vector<double>>(size_t bytes, int repetitions)>;

// Medians by size, 8 bytes to kMostProbeBytes, as far as they do not take too long: beyond a size of 64 KiB
// that takes 60 ms both ways, or any that takes 0.7 s, none is tried. Denser where transports change how they
// send.
//
// Every size is visited kProbeVisits times with the others in between, so that what disturbs for a moment
// disturbs no size alone. Errors: those of `measure`.
absl::StatusOr<std::vector<LinkPoint>> MeasureBySize(MeasureSize measure);

inline constexpr size_t kMostProbeBytes = size_t{16} << 20;
inline constexpr int kProbeVisits = 3;

// The parts of MeasureBySize, for who measures other sizes likewise. `seconds` are of both ways.
bool VisitOnce(double seconds);  // takes so long that moments do not matter
// Appends the seconds of one visit's messages, by the later half of them: the earlier pay for page faults and
// for what was measured before, and a rate limit may let them through.
absl::Status VisitSize(MeasureSize measure, size_t bytes, std::vector<double>& seconds);
double ProbeMedian(std::vector<double> values);  // not empty; above 0

}  // namespace medley
