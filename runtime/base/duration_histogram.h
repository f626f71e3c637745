#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace medley {

// How many durations of something there were, by their length. Not thread-safe.
struct DurationHistogram {
  // Seconds. The longest are for what plans, measures or watches.
  static constexpr std::array<double, 11> kBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                     0.1,    0.5,   1,      10,    100};

  void Add(double seconds) {
    ++counts[static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
                                 kBounds.begin())];
    seconds_total += seconds;
  }

  // Not above each of kBounds, but above the one before; and at the end above them all.
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double seconds_total = 0;
};

}  // namespace medley
