#include "runtime/wire/device_codec.h"

#include <algorithm>
#include <limits>

namespace medley {

DeviceDescription DecodeDevice(const v1::Device& device) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  DeviceDescription description;
  description.name = device.name();
  description.backend = device.backend();
  description.variant = device.variant();
  description.cores.assign(device.cores().begin(), device.cores().end());
  description.memory_limit = Bytes{static_cast<int64_t>(std::min<uint64_t>(device.memory_bytes(), kLargest))};
  description.profile = device.profile();
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
  return device;
}

}  // namespace medley
