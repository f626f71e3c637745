#pragma once
#include <cstdint>

#include "runtime/device/ops.h"

namespace medley {

// The first element of `slice` in host memory; null for an empty slice. The slice was checked by
// CheckArguments.
template <typename T>
T* HostPointer(const Slice& slice) {
  if (slice.empty()) return nullptr;
  return reinterpret_cast<T*>(slice.buffer->host_address() + slice.offset_bytes);
}

}  // namespace medley
