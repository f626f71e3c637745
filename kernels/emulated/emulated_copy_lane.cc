#include "kernels/emulated/emulated_copy_lane.h"

#include <cstring>

#include "kernels/emulated/repeated_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

absl::StatusOr<std::unique_ptr<PinnedMemory>> EmulatedCopyLane::AllocatePinned(Bytes size) {
  return AllocateRepeatedMemory(size);
}

absl::Status EmulatedCopyLane::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  timeline_.Take(queue_.CopySeconds(from.size()));
  return absl::OkStatus();
}

absl::Status EmulatedCopyLane::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  if (!to.empty()) std::memset(to.data(), 0, to.size());
  timeline_.Take(queue_.CopySeconds(to.size()));
  return absl::OkStatus();
}

absl::Status EmulatedCopyLane::Wait(Fence fence) {
  EmulatedTimeline::SleepUntil(fence);
  return absl::OkStatus();
}

absl::Status EmulatedCopyLane::AwaitQueue(Fence fence) {
  timeline_.BeginAfter(fence);
  return absl::OkStatus();
}

}  // namespace medley
