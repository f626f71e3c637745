#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_queue.h"

namespace medley {

// Part of a buffer. Does not own it.
struct DeviceSpan {
  Buffer* buffer = nullptr;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
};

// A message between a device's memory and a peer.
struct DeviceMessage {
  int peer = 0;
  MessageTag tag;
  DeviceSpan span;
  // A fence of the queue: the span is not touched before it is reached. Empty: it may be touched at once.
  std::optional<Fence> after;
  // Called when the device has reached `after` and a send waits for nothing but the peer. Null: nobody wants
  // to know. A receive waits for its peer from the start.
  std::function<void()> when_ready;
};

// When a message that was received is in the device's memory: when `lane` reaches `fence`. Without a lane it
// is there.
struct MessageArrival {
  CopyLane* lane = nullptr;
  Fence fence;
};

// A memory that has an address of this kind, for Transport. kHost: no network could use it as it is.
inline MemoryType MemoryTypeOf(AddressKind kind) {
  switch (kind) {
    case AddressKind::kCuda:
      return MemoryType::kCuda;
    case AddressKind::kRocm:
      return MemoryType::kRocm;
    case AddressKind::kNone:
      break;
  }
  return MemoryType::kHost;
}

}  // namespace medley
