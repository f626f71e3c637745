#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/base/bytes.h"

namespace medley {

// The memory of a device, and what its ops take of it beside what the memory model counts.
struct DeviceRoom {
  Bytes memory;                         // limit
  Bytes workspace;                      // that the ops hold
  double copy_bytes_per_parameter = 0;  // packed or converted copies, of each that products multiply by

  // What is left for the memory model of a rank whose products multiply by so many elements of f32
  // (RankMemory::multiplied): the one answer to whether it fits.
  Bytes LeftFor(int64_t multiplied) const {
    const double copies = std::ceil(copy_bytes_per_parameter * static_cast<double>(multiplied));
    return memory - workspace - Bytes{static_cast<int64_t>(copies)};
  }
  friend bool operator==(const DeviceRoom&, const DeviceRoom&) = default;
};

// Where layers live that are not on a device (Unit::window_layers).
struct HostRoom {
  std::string host;  // devices with the same one have its memory together
  Bytes memory;      // of the host; 0: not known, and refuses nothing
};

}  // namespace medley
