#include "comm/staging/staging_memory.h"

#include "runtime/base/status_macros.h"

namespace medley {

absl::Status StagingMemory::Ensure(CopyLane& lane, Transport& transport, int64_t size_bytes) {
  if (memory_ != nullptr && static_cast<int64_t>(memory_->bytes().size()) >= size_bytes)
    return absl::OkStatus();
  registration_ = nullptr;
  memory_ = nullptr;
  ASSIGN_OR_RETURN(memory_, lane.AllocatePinned({size_bytes}));
  absl::StatusOr<std::unique_ptr<Registration>> registration = transport.Register(memory_->bytes());
  // Without it transfers work all the same.
  if (registration.ok()) registration_ = *std::move(registration);
  return absl::OkStatus();
}

}  // namespace medley
