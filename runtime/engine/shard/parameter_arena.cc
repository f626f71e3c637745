#include "runtime/engine/shard/parameter_arena.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Span<const std::byte> AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterArena>> ParameterArena::Create(Device& device,
                                                                       const ModelConfig& config,
                                                                       absl::Span<const BlockRange> chunks,
                                                                       const ModelShare& share) {
  std::unique_ptr<ParameterArena> arena(new ParameterArena(device, config, chunks, share));
  for (std::unique_ptr<Buffer>& buffer : arena->buffers_) {
    ASSIGN_OR_RETURN(buffer, device.queue->Allocate({4 * arena->layout_.elements}));
  }
  return arena;
}

Slice ParameterArena::Whole(Part part) const {
  return {buffers_[static_cast<int>(part)].get(), 0, layout_.elements};
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
  std::vector<float> own;
  if (held.placed.spec.elements < held.tensor.elements) {
    own.resize(held.placed.spec.elements);
    for (const HeldRun& run : HeldRuns(model_, held.tensor, share_)) {
      std::copy_n(values.begin() + run.whole, run.count, own.begin() + run.held);
    }
    values = own;
  }
  return device_.queue->Upload(AsBytes(values), *buffers_[static_cast<int>(part)], {4 * held.placed.offset});
}

absl::Status ParameterArena::Read(Part part, const std::string& name, absl::Span<float> values) const {
  ASSIGN_OR_RETURN(const Held held, Find(name, values.size()));
  std::vector<float> own;
  const bool is_whole = held.placed.spec.elements == held.tensor.elements;
  if (!is_whole) own.resize(held.placed.spec.elements);
  RETURN_IF_ERROR(Download(part, held.placed.offset, is_whole ? values : absl::MakeSpan(own)));
  if (is_whole) return absl::OkStatus();
  for (const HeldRun& run : HeldRuns(model_, held.tensor, share_)) {
    std::copy_n(own.begin() + run.held, run.count, values.begin() + run.whole);
  }
  return absl::OkStatus();
}

absl::Status ParameterArena::ReadSegment(Part part, SegmentId segment, absl::Span<float> values) const {
  const auto found = std::find(layout_.segments.begin(), layout_.segments.end(), segment);
  if (found == layout_.segments.end())
    return absl::NotFoundError(absl::StrFormat("segment %d is not held here", segment.value()));
  const int64_t elements = SegmentElements(local_, segment);
  if (elements != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrFormat("of segment %d %d elements are held, not %d",
                                                      segment.value(), elements, values.size()));
  }
  if (elements == 0) return absl::OkStatus();
  return Download(part, layout_.segment_offsets[found - layout_.segments.begin()], values);
}

absl::Status ParameterArena::Download(Part part, int64_t offset, absl::Span<float> values) const {
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()),
                                    values.size() * sizeof(float));
  RETURN_IF_ERROR(device_.queue->Download(*buffers_[static_cast<int>(part)], {4 * offset}, bytes));
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
