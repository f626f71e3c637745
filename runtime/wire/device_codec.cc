#include "runtime/wire/device_codec.h"

#include <algorithm>
#include <limits>

namespace medley {

Bytes DecodeBytes(uint64_t bytes) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  return {static_cast<int64_t>(std::min(bytes, kLargest))};
}

DeviceDescription DecodeDevice(const v1::Device& device) {
  DeviceDescription description;
  description.name = device.name();
  description.backend = device.backend();
  description.variant = device.variant();
  description.cores.assign(device.cores().begin(), device.cores().end());
  description.memory_limit = DecodeBytes(device.memory_bytes());
  description.profile = device.profile();
  description.largest_buffer = DecodeBytes(device.largest_buffer_bytes());
  return description;
}

v1::Device EncodeDevice(const DeviceDescription& description) {
  v1::Device device;
  device.set_name(description.name);
  device.set_backend(description.backend);
  device.set_variant(description.variant);
  for (const int core : description.cores) device.add_cores(core);
  device.set_memory_bytes(description.memory_limit.value);
  device.set_profile(description.profile);
  device.set_largest_buffer_bytes(static_cast<uint64_t>(description.largest_buffer.value));
  return device;
}

}  // namespace medley
