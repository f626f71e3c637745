#include "kernels/skeleton/skeleton_copy_lane.h"

#include <algorithm>

#include "kernels/host/ordinary_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_range.h"

namespace medley {

absl::StatusOr<std::unique_ptr<PinnedMemory>> SkeletonCopyLane::AllocatePinned(Bytes size) {
  return AllocateOrdinaryMemory(size);
}

absl::Status SkeletonCopyLane::Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(CheckCopyRange("Upload", to.size(), offset, from.size()));
  return Submit([from, memory = SkeletonQueue::MemoryOf(to), offset] {
    std::copy(from.begin(), from.end(), memory.get() + offset.value);
    return absl::OkStatus();
  });
}

absl::Status SkeletonCopyLane::Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckCopyRange("Download", from.size(), offset, to.size()));
  return Submit([to, memory = SkeletonQueue::MemoryOf(from), offset] {
    std::copy_n(memory.get() + offset.value, to.size(), to.begin());
    return absl::OkStatus();
  });
}

Fence SkeletonCopyLane::Record() {
  MutexLock lock(queue_.mutex_);
  return {line_->submitted()};
}

absl::Status SkeletonCopyLane::Wait(Fence fence) {
  MutexLock lock(queue_.mutex_);
  return line_->AdvanceTo(fence.value);
}

absl::Status SkeletonCopyLane::AwaitQueue(Fence fence) {
  return Submit([queue = queue_.line_, fence] { return queue->AdvanceTo(fence.value); });
}

absl::Status SkeletonCopyLane::Submit(std::function<absl::Status()> work) {
  MutexLock lock(queue_.mutex_);
  return line_->Submit(std::move(work));
}

absl::StatusOr<std::unique_ptr<CopyLane>> SkeletonQueue::OpenCopyLane() {
  return std::make_unique<SkeletonCopyLane>(*this);
}

absl::Status SkeletonQueue::AwaitLane(CopyLane& lane, Fence fence) {
  return Submit(
      [line = static_cast<SkeletonCopyLane&>(lane).line_, fence] { return line->AdvanceTo(fence.value); });
}

}  // namespace medley
