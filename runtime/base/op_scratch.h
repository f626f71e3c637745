#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"

// What ops need of scratch beside their operands, where it is more than a little: stated once, for the memory
// model that sets it aside and for the ops that compute within it.
namespace medley {

// The most that is widened of narrow tensors at a time (ConvertingOps), unless the least that an op falls into
// takes more: one window's attention, say.
inline constexpr Bytes kConversionPart = MiB(8);

// The most logits of a head at a time, in f32, unless kLogitsTile rows have more, or kLogitsRowsOf16Bits. Each part reads the weight
// twice and its gradient once: with half as much, two cores would wait for memory.
inline constexpr Bytes kLogitsPart = MiB(64);
inline constexpr int64_t kLogitsTile = 64;
// Devices that multiply 16 bits compute so fast for what their memory gives that they need more rows for a reading
// of the weight: fewer than a thousand, and reading and writing takes an H100 longer than multiplying.
inline constexpr int64_t kLogitsRowsOf16Bits = 1024;

// Of how many rows a head has the logits at a time, of `rows` in all, which are stored as `activations`: parts of
// about equal height, each of whole tiles if there are several.
constexpr int64_t LogitsRows(int64_t rows, int64_t vocabulary, Dtype activations) {
  const int64_t tiles = kLogitsPart.value / (4 * kLogitsTile * std::max<int64_t>(vocabulary, 1));
  const int64_t most = std::max(kLogitsTile * std::max<int64_t>(tiles, 1),
                                activations == Dtype::kF32 ? int64_t{0} : kLogitsRowsOf16Bits);
  if (rows <= most) return rows;
  const int64_t parts = (rows + most - 1) / most, even = (rows + parts - 1) / parts;
  return (even + kLogitsTile - 1) / kLogitsTile * kLogitsTile;
}

// From one row of logits to the next on a device whose fast kernels want rows that begin at multiples of 16 B in any
// type; others have them without gaps.
constexpr int64_t LogitsStride(int64_t vocabulary) { return (vocabulary + 7) / 8 * 8; }

}  // namespace medley
