#pragma once
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// Pinned memory that a lane copies to and from, and that is registered with the transport; grows as it is
// asked for.
class StagingMemory {
 public:
  // At least `size_bytes`; what was there before is gone, and nothing may use it any more. Errors: of
  // CopyLane::AllocatePinned.
  absl::Status Ensure(CopyLane& lane, Transport& transport, int64_t size_bytes);

  absl::Span<std::byte> bytes() const {
    return memory_ == nullptr ? absl::Span<std::byte>() : memory_->bytes();
  }

 private:
  std::unique_ptr<PinnedMemory> memory_;
  std::unique_ptr<Registration> registration_;  // of memory_; null: the transport had nothing to prepare
};

}  // namespace medley
