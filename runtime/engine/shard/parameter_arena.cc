#include "runtime/engine/shard/parameter_arena.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Span<const std::byte> AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

// Of runs that lie one after another.
int64_t CountOf(absl::Span<const OwnedRun> stored) {
  return stored.empty() ? 0 : stored.back().place + stored.back().elements - stored.front().place;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterArena>> ParameterArena::Create(
    Device& device, const ModelConfig& config, absl::Span<const BlockRange> chunks, const ModelShare& share,
    std::optional<std::vector<OwnedRun>> owned) {
  std::unique_ptr<ParameterArena> arena(new ParameterArena(device, config, chunks, share, std::move(owned)));
  for (const Part part : {Part::kParameter, Part::kGradient, Part::kFirstMoment, Part::kSecondMoment}) {
    ASSIGN_OR_RETURN(arena->buffers_[static_cast<int>(part)],
                     device.queue->Allocate({4 * arena->ElementsOf(part)}));
  }
  return arena;
}

int64_t ParameterArena::ElementsOf(Part part) const {
  if (!IsMoment(part)) return layout_.elements;
  return owned_.empty() ? 0 : owned_.back().place + owned_.back().elements;
}

Slice ParameterArena::Whole(Part part) const {
  return {buffers_[static_cast<int>(part)].get(), 0, ElementsOf(part)};
}

Slice ParameterArena::Owned(Part part, const OwnedRun& run) const {
  return Whole(part).Sub(IsMoment(part) ? run.place : run.offset, run.elements);
}

std::vector<OwnedRun> ParameterArena::StoredWithin(Part part, int64_t first, int64_t end) const {
  if (IsMoment(part)) return OwnedWithin(owned_, first, end);
  return {{.offset = first, .elements = end - first, .place = first}};
}

Slice ParameterArena::Tensor(Part part, const std::string& name) const {
  const PlacedParameter* placed = layout_.Find(name);
  return Whole(part).Sub(placed->offset, placed->spec.elements);
}

Slice ParameterArena::Segments(Part part, SegmentId first_segment, SegmentId end_segment) const {
  int64_t begin = layout_.elements, end = 0;
  for (size_t i = 0; i < layout_.segments.size(); ++i) {
    if (layout_.segments[i] < first_segment || layout_.segments[i] >= end_segment) continue;
    const int64_t next = i + 1 < layout_.segments.size() ? layout_.segment_offsets[i + 1] : layout_.elements;
    begin = std::min(begin, layout_.segment_offsets[i]);
    end = std::max(end, next);
  }
  return Whole(part).Sub(begin, end - begin);
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
  return device_.queue->Upload(AsBytes(values), *buffers_[static_cast<int>(part)],
                               {4 * stored.front().place});
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
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()),
                                    values.size() * sizeof(float));
  RETURN_IF_ERROR(device_.queue->Download(*buffers_[static_cast<int>(part)], {4 * place}, bytes));
  return device_.queue->Wait(device_.queue->Record());
}

absl::Status ParameterArena::Initialise(uint64_t seed) {
  std::vector<float> values;
  for (const PlacedParameter& whole : whole_.parameters) {
    values.resize(whole.spec.elements);
    InitialiseParameter(whole.spec, seed, values.data());
    RETURN_IF_ERROR(Write(Part::kParameter, whole.spec.name, values));
    Progress::OfProcess().Add();
  }
  return absl::OkStatus();
}

}  // namespace medley
