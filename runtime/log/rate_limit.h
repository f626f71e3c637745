#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace medley {

// Lets so many through at once and then so many a second, and counts the others. Times are arguments. Not thread-safe.
class RateLimit {
 public:
  RateLimit(int at_once, double per_second)
      : at_once_(at_once), per_second_(per_second), left_(static_cast<double>(at_once)) {}

  // Whether one would go through.
  bool HasRoom(absl::Time now) {
    if (looked_ != absl::InfinitePast() && now > looked_)
      left_ = std::min(at_once_, left_ + per_second_ * absl::ToDoubleSeconds(now - looked_));
    looked_ = std::max(looked_, now);
    return left_ >= 1;
  }

  // How many were left out since the last one that went through; none: this one is left out, too.
  std::optional<int64_t> Admit(absl::Time now) {
    if (!HasRoom(now)) {
      ++left_out_;
      return std::nullopt;
    }
    left_ -= 1;
    return TakeLeftOut();
  }

  // One that is left out whether or not there was room.
  void LeaveOut() { ++left_out_; }

  int64_t left_out() const { return left_out_; }
  // Counts anew.
  int64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  const double at_once_, per_second_;
  double left_;
  absl::Time looked_ = absl::InfinitePast();
  int64_t left_out_ = 0;
};

}  // namespace medley
