#pragma once
#include <algorithm>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace medley {

// For who has nothing but looking: gives others the core at first, then sleeps longer and longer.
class Patience {
 public:
  void Wait() {
    if (++looks_ < kLooks) return std::this_thread::yield();
    const absl::Duration sleep = std::clamp(slept_ / 8, kShortest, kLongest);
    absl::SleepFor(sleep);
    slept_ += sleep;
  }
  // In all.
  absl::Duration slept() const { return slept_; }

 private:
  static constexpr int kLooks = 200;
  static constexpr absl::Duration kShortest = absl::Microseconds(20), kLongest = absl::Milliseconds(1);

  int looks_ = 0;
  absl::Duration slept_;
};

}  // namespace medley
