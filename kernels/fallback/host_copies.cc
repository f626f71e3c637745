#include "kernels/fallback/host_copies.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The alignment of every buffer, on any device.
constexpr int64_t kAlignmentBytes = 64;

}  // namespace

absl::Status HostCopies::Take(const OpSlices& slices) {
  // An op without elements in an operand (a product over k = 0) may leave results as they were: then those
  // are needed, too.
  bool may_leave_results = false;
  for (const OpSlice& operand : slices) {
    Slice& slice = *operand.slice;
    may_leave_results |= operand.elements == 0;
    if (slice.empty()) continue;
    slice.elements = operand.elements;
    operands_.push_back({operand.slice, slice.buffer, slice.offset_bytes,
                         slice.offset_bytes + slice.elements * SizeOf(operand.dtype).value, operand.access});
  }
  JoinIntoRegions();
  for (Region& region : regions_) region.is_read |= may_leave_results;
  RETURN_IF_ERROR(Download());
  for (const Operand& operand : operands_) {
    const Region& region = regions_[operand.region];
    operand.slice->buffer = region.copy.get();
    operand.slice->offset_bytes = operand.begin_bytes - region.base_bytes;
  }
  return absl::OkStatus();
}

void HostCopies::JoinIntoRegions() {
  std::sort(operands_.begin(), operands_.end(), [](const Operand& a, const Operand& b) {
    if (a.buffer != b.buffer) return std::less<>()(a.buffer, b.buffer);
    return std::tie(a.begin_bytes, a.end_bytes) < std::tie(b.begin_bytes, b.end_bytes);
  });
  for (Operand& operand : operands_) {
    if (regions_.empty() || regions_.back().buffer != operand.buffer ||
        regions_.back().end_bytes <= operand.begin_bytes) {
      regions_.push_back(
          {.buffer = operand.buffer, .begin_bytes = operand.begin_bytes, .end_bytes = operand.end_bytes});
    }
    Region& region = regions_.back();
    region.end_bytes = std::max(region.end_bytes, operand.end_bytes);
    region.is_read |= operand.access != Access::kWrite;
    operand.region = regions_.size() - 1;
  }
}

absl::Status HostCopies::Download() {
  for (Region& region : regions_) {
    region.base_bytes = region.begin_bytes / kAlignmentBytes * kAlignmentBytes;
    ASSIGN_OR_RETURN(region.copy, host_.Allocate({region.end_bytes - region.base_bytes}));
  }
  absl::Status submitted;
  for (const Region& region : regions_) {
    const int64_t size_bytes = region.end_bytes - region.begin_bytes;
    if (!region.is_read || size_bytes == 0 || !submitted.ok()) continue;
    submitted = device_.Download(*region.buffer, {region.begin_bytes},
                                 {CopyOf(region, region.begin_bytes), static_cast<size_t>(size_bytes)});
  }
  // Even after a failure: what was submitted writes to the copies until it is done.
  const absl::Status done = device_.Wait(device_.Record());
  return submitted.ok() ? done : submitted;
}

absl::Status HostCopies::Return() {
  for (const Operand& operand : operands_) {
    const int64_t size_bytes = operand.end_bytes - operand.begin_bytes;
    if (operand.access == Access::kRead || size_bytes == 0) continue;
    RETURN_IF_ERROR(device_.Upload(
        {CopyOf(regions_[operand.region], operand.begin_bytes), static_cast<size_t>(size_bytes)},
        *operand.buffer, {operand.begin_bytes}));
  }
  return absl::OkStatus();
}

std::byte* HostCopies::CopyOf(const Region& region, int64_t device_offset_bytes) const {
  return region.copy->host_address() + (device_offset_bytes - region.base_bytes);
}

}  // namespace medley
