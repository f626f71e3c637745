#pragma once
#include <algorithm>
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
// Where layers live elsewhere, device memory has windows for some of them behind what lives there; a layer's slices are
// those of its window (WindowOf), whatever that has at the moment, and what is written or read by name or segment is
// what its home has: host memory, or, of layers that live with all of their holders, what this one owns of them, which
// lies behind the windows.
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue.
class ParameterArena {
 public:
  enum class Part { kParameter, kGradient, kFirstMoment, kSecondMoment };

  // Everything zero. `owned`: OptimizerShard::owned; none: all that it holds. `windows`: of layers that live in
  // `home`; 0: they live on the device. ResourceExhausted: the device's memory limit, or the host's.
  static absl::StatusOr<std::unique_ptr<ParameterArena>> Create(
      Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks, const ModelShare& share,
      std::optional<std::vector<OwnedRun>> owned = std::nullopt, int windows = 0,
      LayersHome home = LayersHome::kHost);

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
  // One of OwnedOnDevice or OwnedOfLayer, or a part of one: where it is updated.
  Slice Owned(Part part, const OwnedRun& run) const;
  // Likewise of the gradients of elements that this holder owns, which lie in one segment: where their sums are.
  Slice Sums(int64_t offset, int64_t elements) const;
  // All device memory of the part: without windows, as the layout says.
  Slice Whole(Part part) const;
  // What lives on the device.
  Slice OnDevice(Part part) const;
  // The window of a layer that lives in host memory, all of it.
  Slice Window(Part part, BlockId layer) const;

  // owned(), of what lives on the device or with its holders, cut by segments if there are windows; of a layer that
  // lives on the host.
  std::vector<OwnedRun> OwnedOnDevice() const;
  std::vector<OwnedRun> OwnedOfLayer(BlockId layer) const;
  bool LivesOnHost(SegmentId segment) const;
  // Of host memory, for the layers that live there.
  Bytes host_allocated() const { return home_ == nullptr ? Bytes{} : home_->size(); }

  // What this holder keeps of a layer whose part lives with its holders.
  struct Kept {
    int64_t element = 0;  // of the layer, the first
    Slice values;
  };
  std::vector<Kept> KeptOf(Part part, BlockId layer) const;

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
                 const ModelShare& share, std::optional<std::vector<OwnedRun>> owned, int windows,
                 LayersHome home);
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
    int layer = -1;                   // its place among those with windows; -1: it lives there
    int64_t kept = -1;  // where what is kept begins of a layer that lives with its holders; -1: it does not
  };
  // Of parameters, of gradients, or of both moments.
  struct Regions {
    std::vector<Region> of_segments;      // ascending
    int64_t on_device = 0, elements = 0;  // without windows and what is kept, and with them
  };
  static int RegionsIndex(Part part) { return std::min(static_cast<int>(part), 2); }
  const Regions& RegionsOf(Part part) const { return regions_[RegionsIndex(part)]; }
  bool HasWindows(Part part) const;
  static int64_t StoredAt(const Region& region) { return region.kept < 0 ? region.device : region.kept; }
  // A segment's owned runs, numbered as Put and Download number what is kept of the part.
  OwnedRun AsKept(Part part, OwnedRun run) const;
  const Region& RegionOf(Part part, SegmentId segment) const;
  const Region& RegionAt(Part part, int64_t first) const;
  void PlaceRegions(Part part);
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
  const LayersHome layers_home_;
  Regions regions_[3];
  std::unique_ptr<Buffer> buffers_[4];
  std::unique_ptr<LayerHome> home_;  // null: all live on the device; ends its copies before the buffers go
};

}  // namespace medley
