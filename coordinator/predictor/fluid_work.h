#pragma once
#include <algorithm>

namespace medley {

// Something that takes some time by itself, and `share` times as long while others share what it uses.
struct FluidWork {
  double share = 1;
  double updated_seconds = 0;    // when remaining_seconds held
  double remaining_seconds = 0;  // if not shared
  double end_seconds = 0;        // if the share stays as it is

  static FluidWork Begin(double now, double seconds) { return {1, now, seconds, now + seconds}; }
  // An end that no change of shares touches stays as it is, to the bit.
  void Share(double new_share, double now) {
    if (new_share == share) return;
    remaining_seconds = std::max(0.0, remaining_seconds - (now - updated_seconds) / share);
    updated_seconds = now;
    share = new_share;
    end_seconds = now + remaining_seconds * share;
  }
};

}  // namespace medley
