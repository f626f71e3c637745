#pragma once
#include <algorithm>
#include <chrono>
#include <ctime>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace medley {

// What deadlines, leases and lengths are measured by: the system's time as it was when this process first
// asked, and from then on what has passed since, whatever happens to the system's clock. Never goes back. For
// moments that people are shown or that other programs read, take absl::Now().
inline absl::Time Now() {
  const auto uptime = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return absl::DurationFromTimespec(time);
  };
  static const absl::Duration first_uptime = uptime();
  static const absl::Time first_time = absl::Now();
  return first_time + (uptime() - first_uptime);
}

// `deadline`, a moment of Now(), as the moment of CLOCK_MONOTONIC that system calls take. A deadline that has
// passed long ago is 0.
inline timespec ToMonotonic(absl::Time deadline) {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const absl::Duration at = absl::DurationFromTimespec(time) + (deadline - Now());
  return absl::ToTimespec(std::max(at, absl::ZeroDuration()));
}

// `deadline`, a moment of Now(), as the moment of the system's clock that gRPC takes, and back.
inline std::chrono::system_clock::time_point ToSystemClock(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return std::chrono::system_clock::time_point::max();
  return absl::ToChronoTime(absl::Now() + (deadline - Now()));
}
inline absl::Time FromSystemClock(std::chrono::system_clock::time_point deadline) {
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return Now() + (absl::FromChrono(deadline) - absl::Now());
}

// Where a component takes the time from, so that tests can give it theirs.
class Clock {
 public:
  virtual ~Clock() = default;
  // Thread-safe; never goes back.
  virtual absl::Time Now() const { return medley::Now(); }

  static const Clock& Steady() {
    static const Clock clock;
    return clock;
  }
};

}  // namespace medley
