#pragma once
#include <cmath>
#include <cstdint>

#include "runtime/base/bytes.h"

namespace medley {

// The memory of a device, and what its ops take of it beside what the memory model counts.
struct DeviceRoom {
  Bytes memory;                         // limit
  Bytes workspace;                      // that the ops hold
  double copy_bytes_per_parameter = 0;  // packed or converted copies that the ops keep

  // What is left for the memory model of a rank that holds so many parameters: the one answer to whether it fits.
  Bytes LeftFor(int64_t parameters) const {
    const double copies = std::ceil(copy_bytes_per_parameter * static_cast<double>(parameters));
    return memory - workspace - Bytes{static_cast<int64_t>(copies)};
  }
  friend bool operator==(const DeviceRoom&, const DeviceRoom&) = default;
};

}  // namespace medley
