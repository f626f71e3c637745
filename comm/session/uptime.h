#pragma once
#include <ctime>

#include "absl/time/time.h"

namespace medley {

// Since some fixed moment; never goes back, whatever happens to the system's time.
inline absl::Duration Uptime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace medley
