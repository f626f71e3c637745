#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/optimizer_shard.h"

namespace medley {

// The parameters of one holder in device memory, with their gradients, in arenas of one layout, and AdamW's
// moments of what it owns of them: the owned runs one after another. What it holds of each tensor follows from
// its share of the model (model_share.h).
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue.
class ParameterArena {
 public:
  enum class Part { kParameter, kGradient, kFirstMoment, kSecondMoment };

  // Everything zero. `owned`: OptimizerShard::owned; none: all that it holds. ResourceExhausted: the device's
  // memory limit.
  static absl::StatusOr<std::unique_ptr<ParameterArena>> Create(
      Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks, const ModelShare& share,
      std::optional<std::vector<OwnedRun>> owned = std::nullopt);

  // The model as this holder sees it: LocalModel.
  const ModelConfig& config() const { return local_; }
  const ParameterLayout& layout() const { return layout_; }

  const std::vector<OwnedRun>& owned() const { return owned_; }

  // Of parameters and gradients: the tensor `name`, which the layout has.
  Slice Tensor(Part part, const std::string& name) const;
  // Likewise: segments [first, end), which are held and lie side by side.
  Slice Segments(Part part, SegmentId first_segment, SegmentId end_segment) const;
  // One of owned().
  Slice Owned(Part part, const OwnedRun& run) const;
  Slice Whole(Part part) const;

  // Copies what is held of a tensor, of moments what is owned, from or to the host, where `values` are the
  // whole tensor; Read leaves the others as they are, and waits for the queue. NotFound: the tensor is not
  // held. InvalidArgument: another number of elements.
  absl::Status Write(Part part, const std::string& name, absl::Span<const float> values);
  absl::Status Read(Part part, const std::string& name, absl::Span<float> values) const;

  // How many elements are held of a segment, of moments owned. NotFound: the segment is not held.
  absl::StatusOr<int64_t> SegmentSize(Part part, SegmentId segment) const;
  // Copies those to the host, as they lie in the arena; waits for the queue. InvalidArgument: another number
  // of elements. Others: of SegmentSize.
  absl::Status ReadSegment(Part part, SegmentId segment, absl::Span<float> values) const;

  // Every held tensor from `seed` (InitialiseParameter).
  absl::Status Initialise(uint64_t seed);

 private:
  ParameterArena(Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks,
                 const ModelShare& share, std::optional<std::vector<OwnedRun>> owned)
      : device_(device),
        model_(config),
        local_(LocalModel(config, share)),
        share_(share),
        layout_(LayoutOf(local_, chunks)),
        whole_(LayoutOf(model_, chunks)),
        owned_(owned.has_value() ? *std::move(owned) : WholeOptimizer(layout_).owned) {}
  // A tensor, whole and as it is held.
  struct Held {
    const ParameterSpec& tensor;
    const PlacedParameter& placed;
  };
  absl::StatusOr<Held> Find(const std::string& name, size_t elements) const;
  static bool IsMoment(Part part) { return part == Part::kFirstMoment || part == Part::kSecondMoment; }
  int64_t ElementsOf(Part part) const;
  // What the part has of elements [first, end) of the layout, and where.
  std::vector<OwnedRun> StoredWithin(Part part, int64_t first, int64_t end) const;
  // The same of a segment. NotFound: it is not held.
  absl::StatusOr<std::vector<OwnedRun>> StoredOf(Part part, SegmentId segment) const;
  // To the host, as they lie in the part from `place` on; waits for the queue.
  absl::Status Download(Part part, int64_t place, absl::Span<float> values) const;

  Device& device_;
  const ModelConfig model_, local_;
  const ModelShare share_;
  const ParameterLayout layout_, whole_;  // with the same tensors in the same order
  const std::vector<OwnedRun> owned_;
  std::unique_ptr<Buffer> buffers_[4];
};

}  // namespace medley
