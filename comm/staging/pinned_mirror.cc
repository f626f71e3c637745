#include "comm/staging/pinned_mirror.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

int64_t SizeOf(const Slice& slice) { return slice.elements * static_cast<int64_t>(sizeof(float)); }

}  // namespace

absl::StatusOr<PinnedMirror> PinnedMirror::Create(DeviceQueue& queue, CopyLane* lane, const Slice& slice) {
  PinnedMirror mirror(&queue, lane, slice);
  const int64_t size = SizeOf(slice);
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

absl::Status PinnedMirror::AwaitDevice(Fence after) {
  return queue_ == nullptr ? absl::OkStatus() : queue_->Wait(after);
}

absl::Status PinnedMirror::Take(const Slice& from, Bytes offset) {
  const absl::Span<std::byte> to = bytes_.subspan(offset.value, SizeOf(from));
  if (own_ == nullptr) {
    std::copy_n(from.buffer->host_address() + from.offset_bytes, to.size(), to.begin());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(lane_->Download(*from.buffer, {from.offset_bytes}, to));
  return lane_->Wait(lane_->Record());
}

absl::StatusOr<std::optional<Fence>> PinnedMirror::Put(Bytes offset, const Slice& to) {
  const absl::Span<const std::byte> from = bytes_.subspan(offset.value, SizeOf(to));
  if (own_ == nullptr) {
    std::copy_n(from.begin(), from.size(), to.buffer->host_address() + to.offset_bytes);
    return std::nullopt;
  }
  RETURN_IF_ERROR(lane_->Upload(from, *to.buffer, {to.offset_bytes}));
  return lane_->Record();
}

absl::StatusOr<std::optional<Fence>> PinnedMirror::ToDevice() {
  if (own_ == nullptr) return std::nullopt;
  RETURN_IF_ERROR(lane_->Upload(bytes_, *slice_.buffer, {slice_.offset_bytes}));
  return lane_->Record();
}

}  // namespace medley
