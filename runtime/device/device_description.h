#pragma once
#include <string>
#include <vector>

#include "runtime/base/bytes.h"

namespace medley {

// What an agent was told, or found out, about one device.
struct DeviceDescription {
  std::string name;        // unique on its node: "cpu0"
  std::string backend;     // "cpu", "reference": which entry of the backend list opens it
  std::string variant;     // backend-specific kind: "sse41", "avx2", "avx512", "avx512bf16", "amx"
  std::vector<int> cores;  // CPU backends: the cores it computes on; never empty there
  Bytes memory_limit;      // at most this much may be allocated
  std::string profile;     // emulated devices: the file that says what they are like; empty elsewhere
  Bytes largest_buffer;    // no allocation may be larger; 0: only memory_limit bounds it
  friend bool operator==(const DeviceDescription&, const DeviceDescription&) = default;
};

}  // namespace medley
