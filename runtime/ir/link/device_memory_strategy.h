#pragma once
#include <cstdint>

namespace medley {

// How bytes get between the network and a device's memory that the host does not reach, as a job may force it
// (CommunicationSpec.device_memory). Of no effect on memory of the host.
enum class DeviceMemoryStrategy : uint8_t {
  kAutomatic,  // the fastest that was measured
  kDirect,     // the network reads and writes the device's memory
  kStaged,     // through a ring of pinned chunks, copies and transfers at the same time
  kWhole,      // through one pinned block, a copy of the whole before or after the transfer
};

}  // namespace medley
