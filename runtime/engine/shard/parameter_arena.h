#pragma once
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

// The parameters of one holder in device memory, with their gradients and AdamW's moments: four arenas of one
// layout. What it holds of each tensor follows from its share of the model (model_share.h).
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue.
class ParameterArena {
 public:
  enum class Part { kParameter, kGradient, kFirstMoment, kSecondMoment };

  // Everything zero. ResourceExhausted: the device's memory limit.
  static absl::StatusOr<std::unique_ptr<ParameterArena>> Create(Device& device, const ModelConfig& config,
                                                                absl::Span<const BlockRange> chunks,
                                                                const ModelShare& share);

  // The model as this holder sees it: LocalModel.
  const ModelConfig& config() const { return local_; }
  const ParameterLayout& layout() const { return layout_; }

  // The tensor `name`, which the layout has.
  Slice Tensor(Part part, const std::string& name) const;
  // Segments [first, end), which are held and lie side by side.
  Slice Segments(Part part, SegmentId first_segment, SegmentId end_segment) const;
  Slice Whole(Part part) const;

  // Copies what is held of a tensor from or to the host, where `values` are the whole tensor; Read leaves the
  // others as they are, and waits for the queue. NotFound: not held. InvalidArgument: another number of
  // elements.
  absl::Status Write(Part part, const std::string& name, absl::Span<const float> values);
  absl::Status Read(Part part, const std::string& name, absl::Span<float> values) const;

  // Copies all that is held of a segment to the host, as it lies in the arena; waits for the queue. NotFound:
  // not held. InvalidArgument: another number of elements.
  absl::Status ReadSegment(Part part, SegmentId segment, absl::Span<float> values) const;

  // Every held tensor from `seed` (InitialiseParameter).
  absl::Status Initialise(uint64_t seed);

 private:
  ParameterArena(Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks,
                 const ModelShare& share)
      : device_(device),
        model_(config),
        local_(LocalModel(config, share)),
        share_(share),
        layout_(LayoutOf(local_, chunks)),
        whole_(LayoutOf(model_, chunks)) {}
  // A tensor, whole and as it is held.
  struct Held {
    const ParameterSpec& tensor;
    const PlacedParameter& placed;
  };
  absl::StatusOr<Held> Find(const std::string& name, size_t elements) const;
  // To the host, as they lie in the arena from `offset` on; waits for the queue.
  absl::Status Download(Part part, int64_t offset, absl::Span<float> values) const;

  Device& device_;
  const ModelConfig model_, local_;
  const ModelShare share_;
  const ParameterLayout layout_, whole_;  // with the same tensors in the same order
  std::unique_ptr<Buffer> buffers_[4];
};

}  // namespace medley
