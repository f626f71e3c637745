#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/engine/shard/layer_home.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/optimizer_shard.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The parameters of one holder in device memory, with their gradients, in arenas of one layout, and AdamW's
// moments of what it owns of them: the owned runs one after another. What it holds of each tensor follows from
// its share of the model (model_share.h).
//
// Where layers live in host memory, device memory has windows for some of them behind what lives there; a
// layer's slices are those of its window (WindowOf), whatever that has at the moment, and what is written or read by
// name or segment is what its home has.
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue.
class ParameterArena {
 public:
  enum class Part { kParameter, kGradient, kFirstMoment, kSecondMoment };

  // Everything zero. `owned`: OptimizerShard::owned; none: all that it holds. `windows`: of layers that live in
  // host memory; 0: they live on the device. ResourceExhausted: the device's memory limit, or the host's.
  static absl::StatusOr<std::unique_ptr<ParameterArena>> Create(
      Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks, const ModelShare& share,
      std::optional<std::vector<OwnedRun>> owned = std::nullopt, int windows = 0);

  // The model as this holder sees it: LocalModel.
  const ModelConfig& config() const { return local_; }
  const ParameterLayout& layout() const { return layout_; }

  const std::vector<OwnedRun>& owned() const { return owned_; }

  // Of parameters and gradients: the tensor `name`, which the layout has.
  Slice Tensor(Part part, const std::string& name) const;
  // Likewise: segments [first, end), which are held and lie side by side on the device.
  Slice Segments(Part part, SegmentId first_segment, SegmentId end_segment) const;
  // The same of segments that live in host memory, where they lie side by side, too.
  absl::Span<float> HomeOf(Part part, SegmentId first_segment, SegmentId end_segment);
  // Of parameters and gradients: elements from `offset` of the layout on, which lie in one segment.
  Slice At(Part part, int64_t offset, int64_t elements) const;
  // One of OwnedOnDevice or OwnedOfLayer.
  Slice Owned(Part part, const OwnedRun& run) const;
  // All device memory of the part: without windows, as the layout says.
  Slice Whole(Part part) const;
  // What lives on the device.
  Slice OnDevice(Part part) const;
  // The window of a layer that lives in host memory, all of it.
  Slice Window(Part part, BlockId layer) const;

  // owned(), of what lives on the device; of a layer that does not.
  std::vector<OwnedRun> OwnedOnDevice() const;
  std::vector<OwnedRun> OwnedOfLayer(BlockId layer) const;
  bool LivesOnHost(SegmentId segment) const;
  // Of host memory, for the layers that live there.
  Bytes host_allocated() const { return home_ == nullptr ? Bytes{} : home_->size(); }

  // Copies what a layer's home has of the parts of `kind` (one of the windows') into its window, or what the window
  // has to its home; blocks until it is there. Of one thread at a time each, which need not be the queue's.
  absl::Status Fetch(BufferKind kind, BlockId layer);
  absl::Status Store(BufferKind kind, BlockId layer);

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
                 const ModelShare& share, std::optional<std::vector<OwnedRun>> owned, int windows);
  // A tensor, whole and as it is held.
  struct Held {
    const ParameterSpec& tensor;
    const PlacedParameter& placed;
  };
  absl::StatusOr<Held> Find(const std::string& name, size_t elements) const;
  static bool IsMoment(Part part) { return part == Part::kFirstMoment || part == Part::kSecondMoment; }
  int64_t ElementsOf(Part part) const;
  // What a part has of one segment.
  struct Region {
    SegmentId segment;
    int64_t first = 0, elements = 0;  // as the layout numbers them; of moments, by place
    int64_t device = 0;               // where they begin in device memory
    int layer = -1;                   // its place among those that live on the host; -1: it does not
  };
  const std::vector<Region>& RegionsOf(Part part) const {
    return IsMoment(part) ? moment_regions_ : regions_;
  }
  const Region& RegionOf(Part part, SegmentId segment) const;
  const Region& RegionAt(Part part, int64_t first) const;
  void PlaceRegions(std::vector<Region>& regions, int64_t& on_device, int64_t& all) const;
  // Copies values that lie from `place` on in the part, of one segment, from the host.
  absl::Status Put(Part part, int64_t place, absl::Span<const float> values);
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
  const int windows_;
  std::vector<Region> regions_, moment_regions_;         // ascending
  int64_t on_device_ = 0, elements_ = 0;                 // of parameters: without windows, and with them
  int64_t moments_on_device_ = 0, moment_elements_ = 0;  // likewise
  std::unique_ptr<Buffer> buffers_[4];
  std::unique_ptr<LayerHome> home_;  // null: all live on the device; ends its copies before the buffers go
};

}  // namespace medley
