#pragma once
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/ops.h"

namespace medley {

// The host's side of a slice of device memory, for whoever sends it or receives into it. Where the host reaches the
// device's memory this is that memory and nothing is ever copied; otherwise it is a buffer of the mirror's own.
//
// Movable. Thread: ToDevice and FromDevice from the one that submits to the queue.
class HostMirror {
 public:
  // `queue` and the slice's buffer outlive the mirror.
  HostMirror(DeviceQueue& queue, const Slice& slice);

  absl::Span<std::byte> bytes() { return bytes_; }

  // Submits the copy in that direction. What FromDevice copies is in bytes() once a fence recorded later is reached.
  absl::Status ToDevice();
  absl::Status FromDevice();

 private:
  DeviceQueue* queue_;
  Slice slice_;
  std::vector<std::byte> own_;   // empty where the host reaches the device's memory
  absl::Span<std::byte> bytes_;  // of the device's memory, or of own_
};

}  // namespace medley
