#include "comm/staging/pinned_mirror.h"

#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<PinnedMirror> PinnedMirror::Create(DeviceQueue& queue, CopyLane* lane, const Slice& slice) {
  PinnedMirror mirror(&queue, lane, slice);
  const int64_t size = slice.elements * static_cast<int64_t>(sizeof(float));
  std::byte* address = slice.buffer == nullptr ? nullptr : slice.buffer->host_address();
  if (address != nullptr || size == 0) {
    mirror.bytes_ = {address == nullptr ? nullptr : address + slice.offset_bytes, static_cast<size_t>(size)};
    return mirror;
  }
  if (lane == nullptr)
    return absl::InvalidArgumentError("the host does not reach this memory: a mirror needs a lane");
  ASSIGN_OR_RETURN(mirror.own_, lane->AllocatePinned({size}));
  mirror.bytes_ = mirror.own_->bytes();
  return mirror;
}

PinnedMirror PinnedMirror::OfHost(absl::Span<float> values) {
  PinnedMirror mirror(nullptr, nullptr, {});
  mirror.bytes_ = {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
  return mirror;
}

absl::Status PinnedMirror::FromDevice(Fence after) {
  if (queue_ == nullptr) return absl::OkStatus();
  if (own_ == nullptr) return queue_->Wait(after);
  RETURN_IF_ERROR(lane_->AwaitQueue(after));
  RETURN_IF_ERROR(lane_->Download(*slice_.buffer, {slice_.offset_bytes}, bytes_));
  return lane_->Wait(lane_->Record());
}

absl::StatusOr<std::optional<Fence>> PinnedMirror::ToDevice() {
  if (own_ == nullptr) return std::nullopt;
  RETURN_IF_ERROR(lane_->Upload(bytes_, *slice_.buffer, {slice_.offset_bytes}));
  return lane_->Record();
}

}  // namespace medley
