#include "kernels/host/host_copy_lane.h"

#include "kernels/host/ordinary_memory.h"

namespace medley {

absl::StatusOr<std::unique_ptr<PinnedMemory>> HostCopyLane::AllocatePinned(Bytes size) {
  return AllocateOrdinaryMemory(size);
}

// The queue's own copies touch nothing of the queue but its error, so they are as good from any thread.
absl::Status HostCopyLane::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  return queue_.Upload(from, to, offset);
}

absl::Status HostCopyLane::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  return queue_.Download(from, offset, to);
}

absl::StatusOr<std::unique_ptr<CopyLane>> HostQueue::OpenCopyLane() {
  return std::make_unique<HostCopyLane>(*this);
}

absl::Status HostQueue::AwaitLane(CopyLane&, Fence) { return error(); }

}  // namespace medley
