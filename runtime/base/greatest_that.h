#pragma once

namespace medley {

// The greatest number of `least` to `most` that `may`, found by halving: `least` may, and so may all below one that may.
// `least` where `most` is no greater.
template <typename May>
int GreatestThat(int least, int most, const May& may) {
  while (least < most) {
    const int middle = least + (most - least + 1) / 2;
    if (may(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

}  // namespace medley
