#pragma once
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace medley {

// The system's time, in Unix seconds: what people are shown, and other programs read. For deadlines and lengths see clock.h.
inline double UnixSecondsNow() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

}  // namespace medley
