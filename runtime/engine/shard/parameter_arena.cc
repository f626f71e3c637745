#include "runtime/engine/shard/parameter_arena.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/layer_windows.h"

namespace medley {
namespace {

absl::Span<const std::byte> AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

// Between signs of progress; even, as InitialiseElements asks. A fraction of a second's work.
constexpr int64_t kInitialisedAtOnce = int64_t{1} << 20;

// Of runs that lie one after another.
int64_t CountOf(absl::Span<const OwnedRun> stored) {
  return stored.empty() ? 0 : stored.back().place + stored.back().elements - stored.front().place;
}

// Of the windows of a kind.
std::vector<ParameterArena::Part> PartsOf(BufferKind kind) {
  using Part = ParameterArena::Part;
  if (kind == BufferKind::kMomentWindow) return {Part::kFirstMoment, Part::kSecondMoment};
  return {kind == BufferKind::kGradientWindow ? Part::kGradient : Part::kParameter};
}

constexpr ParameterArena::Part kParts[] = {ParameterArena::Part::kParameter, ParameterArena::Part::kGradient,
                                           ParameterArena::Part::kFirstMoment,
                                           ParameterArena::Part::kSecondMoment};

}  // namespace

ParameterArena::ParameterArena(Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks,
                               const ModelShare& share, std::optional<std::vector<OwnedRun>> owned,
                               int windows, LayersHome home)
    : device_(device),
      model_(config),
      local_(LocalModel(config, share)),
      share_(share),
      layout_(LayoutOf(local_, chunks)),
      whole_(LayoutOf(model_, chunks)),
      owned_(owned.has_value() ? *std::move(owned) : WholeOptimizer(layout_).owned),
      windows_(windows),
      layers_home_(home) {
  for (const Part part : {Part::kFirstMoment, Part::kParameter, Part::kGradient}) PlaceRegions(part);
}

bool ParameterArena::HasWindows(Part part) const {
  if (windows_ == 0) return false;
  return layers_home_ == LayersHome::kHost || part == Part::kGradient ||
         (part == Part::kParameter && layers_home_ == LayersHome::kPeers);
}

// What lives on the device one after another, then the windows, each of which takes the largest layer, then what is
// kept of layers that live with their holders, in the order of the moments.
void ParameterArena::PlaceRegions(Part part) {
  Regions& regions = regions_[RegionsIndex(part)];
  int layers = 0;
  int64_t place = 0, window = 0;
  for (size_t i = 0; i < layout_.segments.size(); ++i) {
    const SegmentId segment = layout_.segments[i];
    const int64_t elements = SegmentElements(local_, segment), first = layout_.segment_offsets[i];
    Region& region =
        regions.of_segments.emplace_back(Region{.segment = segment, .first = first, .elements = elements});
    if (IsMoment(part)) {
      region.first = place;
      region.elements = CountOf(OwnedWithin(owned_, first, first + elements));
      place += region.elements;
    }
    if (HasWindows(part) && IsLayer(model_, segment)) {
      region.layer = layers++;
      window = std::max(window, region.elements);
    } else {
      region.device = regions.on_device;
      regions.on_device += region.elements;
    }
  }
  regions.elements = regions.on_device + windows_ * window;
  for (size_t i = 0; i < regions.of_segments.size(); ++i) {
    Region& region = regions.of_segments[i];
    if (region.layer < 0) continue;
    region.device = regions.on_device + WindowOf(region.layer, windows_) * window;
    if (layers_home_ == LayersHome::kHost) continue;
    region.kept = regions.elements;
    regions.elements += RegionsOf(Part::kFirstMoment).of_segments[i].elements;
  }
}

absl::StatusOr<std::unique_ptr<ParameterArena>> ParameterArena::Create(
    Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks, const ModelShare& share,
    std::optional<std::vector<OwnedRun>> owned, int windows, LayersHome home) {
  std::unique_ptr<ParameterArena> arena(
      new ParameterArena(device, config, chunks, share, std::move(owned), windows, home));
  for (const Part part : kParts) {
    ASSIGN_OR_RETURN(arena->buffers_[static_cast<int>(part)],
                     device.queue->Allocate({4 * arena->ElementsOf(part)}));
  }
  if (windows == 0 || home != LayersHome::kHost) return arena;
  std::vector<std::vector<int64_t>> elements;  // of each part, of each layer
  for (const Part part : kParts) {
    elements.emplace_back();
    for (const Region& region : arena->RegionsOf(part).of_segments) {
      if (region.layer >= 0) elements.back().push_back(region.elements);
    }
  }
  ASSIGN_OR_RETURN(arena->home_, LayerHome::Create(*device.queue, elements));
  return arena;
}

bool ParameterArena::LivesOnHost(SegmentId segment) const {
  return home_ != nullptr && IsLayer(model_, segment);
}

int64_t ParameterArena::ElementsOf(Part part) const { return RegionsOf(part).elements; }

const ParameterArena::Region& ParameterArena::RegionOf(Part part, SegmentId segment) const {
  const std::vector<Region>& regions = RegionsOf(part).of_segments;
  return *std::partition_point(regions.begin(), regions.end(),
                               [&](const Region& before) { return before.segment < segment; });
}

const ParameterArena::Region& ParameterArena::RegionAt(Part part, int64_t first) const {
  const std::vector<Region>& regions = RegionsOf(part).of_segments;
  const auto found = std::partition_point(regions.begin(), regions.end(), [&](const Region& before) {
    return before.first + before.elements <= first;
  });
  return found == regions.end() ? regions.back() : *found;
}

Slice ParameterArena::Whole(Part part) const {
  return {buffers_[static_cast<int>(part)].get(), 0, ElementsOf(part)};
}

Slice ParameterArena::OnDevice(Part part) const { return Whole(part).Sub(0, RegionsOf(part).on_device); }

Slice ParameterArena::Window(Part part, BlockId layer) const {
  const Region& region = RegionOf(part, SegmentOfBlock(layer));
  return Whole(part).Sub(region.device, region.elements);
}

Slice ParameterArena::At(Part part, int64_t offset, int64_t elements) const {
  const Region& region = RegionAt(part, offset);
  return Whole(part).Sub(region.device + offset - region.first, elements);
}

OwnedRun ParameterArena::AsKept(Part part, OwnedRun run) const {
  const Region& region = RegionAt(part, run.offset);
  run.place += region.first - RegionOf(Part::kFirstMoment, region.segment).first;
  return run;
}

Slice ParameterArena::Owned(Part part, const OwnedRun& run) const {
  if (IsMoment(part)) return At(part, run.place, run.elements);
  const Region& region = RegionAt(part, run.offset);
  if (region.kept < 0) return At(part, run.offset, run.elements);
  return Whole(part).Sub(region.kept + AsKept(part, run).place - region.first, run.elements);
}

Slice ParameterArena::Sums(int64_t offset, int64_t elements) const {
  if (!HasWindows(Part::kGradient)) return At(Part::kGradient, offset, elements);
  return Owned(Part::kGradient, OwnedWithin(owned_, offset, offset + elements).front());
}

std::vector<ParameterArena::Kept> ParameterArena::KeptOf(Part part, BlockId layer) const {
  const int64_t first = RegionOf(part, SegmentOfBlock(layer)).first;
  std::vector<Kept> kept;
  for (const OwnedRun& run : OwnedOfLayer(layer)) kept.push_back({run.offset - first, Owned(part, run)});
  return kept;
}

std::vector<OwnedRun> ParameterArena::OwnedOnDevice() const {
  if (windows_ == 0) return owned_;
  std::vector<OwnedRun> runs;
  for (const Region& region : RegionsOf(Part::kParameter).of_segments) {
    if (LivesOnHost(region.segment)) continue;
    const std::vector<OwnedRun> within = OwnedWithin(owned_, region.first, region.first + region.elements);
    runs.insert(runs.end(), within.begin(), within.end());
  }
  return runs;
}

std::vector<OwnedRun> ParameterArena::OwnedOfLayer(BlockId layer) const {
  const Region& region = RegionOf(Part::kParameter, SegmentOfBlock(layer));
  return OwnedWithin(owned_, region.first, region.first + region.elements);
}

std::vector<OwnedRun> ParameterArena::StoredWithin(Part part, int64_t first, int64_t end) const {
  if (IsMoment(part)) return OwnedWithin(owned_, first, end);
  if (RegionAt(part, first).kept < 0) return {{.offset = first, .elements = end - first, .place = first}};
  std::vector<OwnedRun> kept = OwnedWithin(owned_, first, end);
  for (OwnedRun& run : kept) run = AsKept(part, run);
  return kept;
}

Slice ParameterArena::Tensor(Part part, const std::string& name) const {
  const PlacedParameter* placed = layout_.Find(name);
  return At(part, placed->offset, placed->spec.elements);
}

Slice ParameterArena::Segments(Part part, SegmentId first_segment, SegmentId end_segment) const {
  int64_t begin = ElementsOf(part), end = 0;
  for (const Region& region : RegionsOf(part).of_segments) {
    if (region.segment < first_segment || region.segment >= end_segment || region.elements == 0) continue;
    begin = std::min(begin, region.device);
    end = std::max(end, region.device + region.elements);
  }
  return Whole(part).Sub(begin, std::max<int64_t>(0, end - begin));
}

absl::Span<float> ParameterArena::HomeOf(Part part, SegmentId first_segment, SegmentId end_segment) {
  const absl::Span<float> first = home_->Values(static_cast<int>(part), RegionOf(part, first_segment).layer),
                          last = home_->Values(static_cast<int>(part), RegionOf(part, end_segment - 1).layer);
  return {first.data(), static_cast<size_t>(last.data() + last.size() - first.data())};
}

absl::Status ParameterArena::Fetch(BufferKind kind, BlockId layer) {
  const SegmentId segment = SegmentOfBlock(layer);
  for (const Part part : PartsOf(kind)) {
    const Slice window = Window(part, layer);
    RETURN_IF_ERROR(home_->Fetch(HomeOf(part, segment, segment + 1), *window.buffer, {window.offset_bytes}));
  }
  return absl::OkStatus();
}

absl::Status ParameterArena::Store(BufferKind kind, BlockId layer) {
  const SegmentId segment = SegmentOfBlock(layer);
  for (const Part part : PartsOf(kind)) {
    const Slice window = Window(part, layer);
    RETURN_IF_ERROR(home_->Store(*window.buffer, {window.offset_bytes}, HomeOf(part, segment, segment + 1)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterArena::Held> ParameterArena::Find(const std::string& name, size_t elements) const {
  const PlacedParameter* whole = whole_.Find(name);
  if (whole == nullptr) return absl::NotFoundError(absl::StrFormat("tensor %s is not held here", name));
  if (whole->spec.elements != static_cast<int64_t>(elements)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor %s has %d elements, want %d", name, elements, whole->spec.elements));
  }
  return Held{whole->spec, layout_.parameters[whole - whole_.parameters.data()]};
}

absl::Status ParameterArena::Write(Part part, const std::string& name, absl::Span<const float> values) {
  ASSIGN_OR_RETURN(const Held held, Find(name, values.size()));
  device_.ops->ParametersChanged();
  const int64_t offset = held.placed.offset, elements = held.placed.spec.elements;
  const std::vector<OwnedRun> stored = StoredWithin(part, offset, offset + elements);
  if (stored.empty()) return absl::OkStatus();
  std::vector<float> own;
  if (CountOf(stored) < held.tensor.elements) {
    own.resize(CountOf(stored));
    ForEachOwned(HeldRuns(model_, held.tensor, share_), offset, stored,
                 [&](int64_t whole, int64_t place, int64_t count) {
                   std::copy_n(values.begin() + whole, count, own.begin() + place - stored.front().place);
                 });
    values = own;
  }
  return Put(part, stored.front().place, values);
}

absl::Status ParameterArena::Put(Part part, int64_t place, absl::Span<const float> values) {
  const Region& region = RegionAt(part, place);
  if (LivesOnHost(region.segment)) {
    std::copy(values.begin(), values.end(),
              home_->Values(static_cast<int>(part), region.layer).begin() + (place - region.first));
    return absl::OkStatus();
  }
  return device_.queue->Upload(AsBytes(values), *buffers_[static_cast<int>(part)],
                               {4 * (StoredAt(region) + place - region.first)});
}

absl::Status ParameterArena::Read(Part part, const std::string& name, absl::Span<float> values) const {
  ASSIGN_OR_RETURN(const Held held, Find(name, values.size()));
  const int64_t offset = held.placed.offset, elements = held.placed.spec.elements;
  const std::vector<OwnedRun> stored = StoredWithin(part, offset, offset + elements);
  if (stored.empty()) return absl::OkStatus();
  if (CountOf(stored) == held.tensor.elements) return Download(part, stored.front().place, values);
  std::vector<float> own(CountOf(stored));
  RETURN_IF_ERROR(Download(part, stored.front().place, absl::MakeSpan(own)));
  ForEachOwned(HeldRuns(model_, held.tensor, share_), offset, stored,
               [&](int64_t whole, int64_t place, int64_t count) {
                 std::copy_n(own.begin() + place - stored.front().place, count, values.begin() + whole);
               });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OwnedRun>> ParameterArena::StoredOf(Part part, SegmentId segment) const {
  const auto found = std::find(layout_.segments.begin(), layout_.segments.end(), segment);
  if (found == layout_.segments.end())
    return absl::NotFoundError(absl::StrFormat("segment %d is not held here", segment.value()));
  const int64_t first = layout_.segment_offsets[found - layout_.segments.begin()];
  return StoredWithin(part, first, first + SegmentElements(local_, segment));
}

absl::StatusOr<int64_t> ParameterArena::SegmentSize(Part part, SegmentId segment) const {
  ASSIGN_OR_RETURN(const std::vector<OwnedRun> stored, StoredOf(part, segment));
  return CountOf(stored);
}

absl::Status ParameterArena::ReadSegment(Part part, SegmentId segment, absl::Span<float> values) const {
  ASSIGN_OR_RETURN(const std::vector<OwnedRun> stored, StoredOf(part, segment));
  if (CountOf(stored) != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrFormat("of segment %d %d elements are held, not %d",
                                                      segment.value(), CountOf(stored), values.size()));
  }
  if (values.empty()) return absl::OkStatus();
  return Download(part, stored.front().place, values);
}

absl::Status ParameterArena::Download(Part part, int64_t place, absl::Span<float> values) const {
  const Region& region = RegionAt(part, place);
  if (LivesOnHost(region.segment)) {
    const absl::Span<const float> home = home_->Values(static_cast<int>(part), region.layer);
    std::copy_n(home.begin() + (place - region.first), values.size(), values.begin());
    return absl::OkStatus();
  }
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()),
                                    values.size() * sizeof(float));
  RETURN_IF_ERROR(device_.queue->Download(*buffers_[static_cast<int>(part)],
                                          {4 * (StoredAt(region) + place - region.first)}, bytes));
  return device_.queue->Wait(device_.queue->Record());
}

absl::Status ParameterArena::Initialise(uint64_t seed) {
  std::vector<float> values;
  for (const PlacedParameter& whole : whole_.parameters) {
    values.resize(whole.spec.elements);
    for (int64_t first = 0; first < whole.spec.elements; first += kInitialisedAtOnce) {
      const absl::Span<float> piece = absl::MakeSpan(values).subspan(first, kInitialisedAtOnce);
      InitialiseElements(whole.spec, seed, first, piece);
      Progress::OfProcess().Add();
    }
    RETURN_IF_ERROR(Write(Part::kParameter, whole.spec.name, values));
    Progress::OfProcess().Add();
  }
  return absl::OkStatus();
}

}  // namespace medley
