#include "comm/staging/measure_copies.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "comm/staging/device_message.h"
#include "runtime/base/evict_from_caches.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr Bytes kLarge = MiB(4), kMostOfLayer = MiB(64), kLeast = KiB(64);
constexpr size_t kMostSmall = 4096;
constexpr int kRounds = 5;

// Where the host's bytes of a copy are before it.
enum class HostSide : uint8_t { kInCaches, kInMemoryAlone };

double NowSeconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Copies of all of `bytes`.
using Copy = absl::FunctionRef<absl::Status(absl::Span<std::byte> bytes)>;

// The least of a few, after one that does not count: what else runs on the host only makes them longer.
absl::StatusOr<double> LeastSeconds(CopyLane& lane, absl::Span<std::byte> bytes, HostSide side, Copy copy) {
  double least_seconds = std::numeric_limits<double>::infinity();
  for (int round = -1; round < kRounds; ++round) {
    if (side == HostSide::kInMemoryAlone) EvictFromCaches(bytes);
    const double start = NowSeconds();
    RETURN_IF_ERROR(copy(bytes));
    RETURN_IF_ERROR(lane.Wait(lane.Record()));
    if (round >= 0) least_seconds = std::min(least_seconds, NowSeconds() - start);
  }
  return std::max(least_seconds, 1e-9);
}

// The line through a small copy and a large one.
absl::StatusOr<CopyCost> MeasureWay(CopyLane& lane, absl::Span<std::byte> bytes, Copy copy) {
  const size_t large = bytes.size(), small = std::min(kMostSmall, large / 2);
  ASSIGN_OR_RETURN(const double small_seconds,
                   LeastSeconds(lane, bytes.first(small), HostSide::kInCaches, copy));
  ASSIGN_OR_RETURN(const double large_seconds, LeastSeconds(lane, bytes, HostSide::kInCaches, copy));
  // A large copy that took no longer than a small one was disturbed, or the clock is too coarse: then it is
  // all bytes.
  const double more = std::max(large_seconds - small_seconds, large_seconds / 10);
  const double bytes_per_second = static_cast<double>(large - small) / more;
  return CopyCost{std::max(0.0, small_seconds - static_cast<double>(small) / bytes_per_second),
                  bytes_per_second};
}

absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateZeros(DeviceQueue& queue, CopyLane& lane, Bytes size) {
  ASSIGN_OR_RETURN(std::unique_ptr<PinnedMemory> memory, lane.AllocatePinned(size));
  const absl::Span<std::byte> bytes = memory->bytes();
  std::memset(bytes.data(), 0, bytes.size());
  RETURN_IF_ERROR(queue.Wait(queue.Record()));
  return memory;
}

// `size`, or what the device has left, at least kLeast.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateUpTo(DeviceQueue& queue, Bytes size) {
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = queue.Allocate(size);
  while (absl::IsResourceExhausted(buffer.status()) && size > kLeast) {
    size = std::max(kLeast, Bytes{size.value / 2});
    buffer = queue.Allocate(size);
  }
  return buffer;
}

}  // namespace

absl::StatusOr<CopyCosts> MeasureCopies(DeviceQueue& queue, Buffer& over, CopyLane& lane) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> memory,
                   AllocateZeros(queue, lane, std::min(kLarge, over.size())));
  CopyCosts costs;
  // What the last download brings is what all uploads take back.
  ASSIGN_OR_RETURN(costs.to_host, MeasureWay(lane, memory->bytes(), [&](absl::Span<std::byte> bytes) {
                     return lane.Download(over, {0}, bytes);
                   }));
  ASSIGN_OR_RETURN(costs.to_device, MeasureWay(lane, memory->bytes(), [&](absl::Span<std::byte> bytes) {
                     return lane.Upload(bytes, over, {0});
                   }));
  return costs;
}

absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, Buffer& over, const Transport& transport) {
  EndMemory end;
  end.host_reaches = over.host_address() != nullptr;
  if (end.host_reaches) return end;
  const MemoryType type = MemoryTypeOf(over.device_address().kind);
  end.network_reaches = type != MemoryType::kHost && transport.Reaches(type);
  ASSIGN_OR_RETURN(const std::unique_ptr<CopyLane> lane, queue.OpenCopyLane());
  ASSIGN_OR_RETURN(end.copies, MeasureCopies(queue, over, *lane));
  return end;
}

absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, const Transport& transport) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> buffer, AllocateUpTo(queue, kLarge));
  return MeasureMemory(queue, *buffer, transport);
}

absl::StatusOr<LayerCopySpeeds> MeasureLayerCopies(DeviceQueue& queue, Bytes size) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> window,
                   AllocateUpTo(queue, std::clamp(size, kLeast, kMostOfLayer)));
  ASSIGN_OR_RETURN(const std::unique_ptr<CopyLane> lane, queue.OpenCopyLane());
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> memory, AllocateZeros(queue, *lane, window->size()));
  const auto speed = [&](Copy copy) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const double seconds,
                     LeastSeconds(*lane, memory->bytes(), HostSide::kInMemoryAlone, copy));
    return static_cast<double>(window->size().value) / seconds;
  };
  LayerCopySpeeds speeds{.host_reaches = window->host_address() != nullptr};
  ASSIGN_OR_RETURN(speeds.fetch_bytes_per_second,
                   speed([&](absl::Span<std::byte> bytes) { return lane->Upload(bytes, *window, {0}); }));
  ASSIGN_OR_RETURN(speeds.store_bytes_per_second,
                   speed([&](absl::Span<std::byte> bytes) { return lane->Download(*window, {0}, bytes); }));
  return speeds;
}

}  // namespace medley
