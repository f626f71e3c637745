#include "agent/profile/copy_timer.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/copy_lane.h"

namespace medley {
namespace {

constexpr Bytes kMost = MiB(64), kLeast{int64_t{64} << 10};
constexpr int kRounds = 5;

// The first round does not count: it is the first to touch the memory.
absl::StatusOr<double> BytesPerSecond(CopyLane& lane, Bytes size, absl::FunctionRef<absl::Status()> copy) {
  double least_seconds = std::numeric_limits<double>::infinity();
  for (int round = -1; round < kRounds; ++round) {
    const absl::Time start = Now();
    RETURN_IF_ERROR(copy());
    RETURN_IF_ERROR(lane.Wait(lane.Record()));
    if (round >= 0) least_seconds = std::min(least_seconds, absl::ToDoubleSeconds(Now() - start));
  }
  return static_cast<double>(size.value) / std::max(least_seconds, 1e-9);
}

}  // namespace

absl::StatusOr<CopySpeeds> TimeCopies(Device& device, Bytes size) {
  size = std::clamp(size, kLeast, kMost);
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = device.queue->Allocate(size);
  while (absl::IsResourceExhausted(buffer.status()) && size > kLeast) {
    size = std::max(kLeast, Bytes{size.value / 2});
    buffer = device.queue->Allocate(size);
  }
  RETURN_IF_ERROR(buffer.status());
  ASSIGN_OR_RETURN(const std::unique_ptr<CopyLane> lane, device.queue->OpenCopyLane());
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> memory, lane->AllocatePinned(size));
  const absl::Span<std::byte> bytes = memory->bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{});
  RETURN_IF_ERROR(device.queue->Wait(device.queue->Record()));
  CopySpeeds speeds{.host_reaches = (*buffer)->host_address() != nullptr};
  ASSIGN_OR_RETURN(speeds.fetch_bytes_per_second,
                   BytesPerSecond(*lane, size, [&] { return lane->Upload(bytes, **buffer, {0}); }));
  ASSIGN_OR_RETURN(speeds.store_bytes_per_second,
                   BytesPerSecond(*lane, size, [&] { return lane->Download(**buffer, {0}, bytes); }));
  return speeds;
}

}  // namespace medley
