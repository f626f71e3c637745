#pragma once
#include <memory>

#include "kernels/opencl/opencl_queue.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// A command queue of its own over the buffers of an OpenClQueue. Pinned memory is a buffer that the driver
// placed on the host, mapped for as long as it lives.
class OpenClCopyLane final : public CopyLane {
 public:
  OpenClCopyLane(OpenClQueue& queue, std::unique_ptr<OpenClLine> line)
      : queue_(queue), line_(std::move(line)) {}

  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override { return line_->Record(); }
  absl::Status Wait(Fence fence) override { return line_->Wait(fence); }
  absl::Status AwaitQueue(Fence fence) override { return line_->Await(queue_.line(), fence); }

  OpenClLine& line() { return *line_; }

 private:
  OpenClQueue& queue_;
  const std::unique_ptr<OpenClLine> line_;
};

}  // namespace medley
