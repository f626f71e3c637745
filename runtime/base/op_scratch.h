#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/base/bytes.h"

// What ops need of scratch beside their operands, where it is more than a little: stated once, for the memory
// model that sets it aside and for the ops that compute within it.
namespace medley {

// The most that is widened of narrow tensors at a time (ConvertingOps), unless the least that an op falls into
// takes more: one window's attention, say.
inline constexpr Bytes kConversionPart = MiB(8);

// The most logits of a head at a time, in f32, unless kLogitsTile rows have more. Each part reads the weight
// twice and its gradient once: with half as much, two cores would wait for memory.
inline constexpr Bytes kLogitsPart = MiB(64);
inline constexpr int64_t kLogitsTile = 64;

// Of how many rows a head has the logits at a time, of `rows` in all: parts of about equal height, each of
// whole tiles if there are several.
constexpr int64_t LogitsRows(int64_t rows, int64_t vocabulary) {
  const int64_t tiles = kLogitsPart.value / (4 * kLogitsTile * std::max<int64_t>(vocabulary, 1));
  const int64_t most = kLogitsTile * std::max<int64_t>(tiles, 1);
  if (rows <= most) return rows;
  const int64_t parts = (rows + most - 1) / most, even = (rows + parts - 1) / parts;
  return (even + kLogitsTile - 1) / kLogitsTile * kLogitsTile;
}

}  // namespace medley
