#include "runtime/exec/host_mirror.h"

namespace medley {

HostMirror::HostMirror(DeviceQueue& queue, const Slice& slice) : queue_(&queue), slice_(slice) {
  const size_t size = static_cast<size_t>(slice.elements) * sizeof(float);
  std::byte* address = slice.buffer == nullptr ? nullptr : slice.buffer->host_address();
  if (address != nullptr) {
    bytes_ = {address + slice.offset_bytes, size};
  } else {
    own_.resize(size);
    bytes_ = absl::MakeSpan(own_);
  }
}

absl::Status HostMirror::ToDevice() {
  if (own_.empty()) return absl::OkStatus();
  return queue_->Upload(own_, *slice_.buffer, {slice_.offset_bytes});
}

absl::Status HostMirror::FromDevice() {
  if (own_.empty()) return absl::OkStatus();
  return queue_->Download(*slice_.buffer, {slice_.offset_bytes}, absl::MakeSpan(own_));
}

}  // namespace medley
