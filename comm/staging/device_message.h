#pragma once
#include <cstdint>
#include <optional>

#include "comm/transport/transport.h"
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
  // Of the queue: the span is not touched before it is reached. Empty: it may be touched at once.
  std::optional<Fence> after;
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
