#include "comm/staging/measure_copies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "absl/functional/function_ref.h"
#include "comm/staging/device_message.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kLarge = int64_t{4} << 20, kLeast = int64_t{64} << 10, kMostSmall = 4096;
constexpr int kRounds = 5;

double NowSeconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least of a few, after one that does not count: what else runs on the host only makes them longer.
absl::StatusOr<double> LeastSeconds(CopyLane& lane, absl::FunctionRef<absl::Status()> copy) {
  std::array<double, kRounds> seconds;
  for (int round = -1; round < kRounds; ++round) {
    const double start = NowSeconds();
    RETURN_IF_ERROR(copy());
    RETURN_IF_ERROR(lane.Wait(lane.Record()));
    if (round >= 0) seconds[round] = NowSeconds() - start;
  }
  return *std::min_element(seconds.begin(), seconds.end());
}

// The line through a small copy and a large one.
absl::StatusOr<CopyCost> MeasureWay(CopyLane& lane, int64_t large,
                                    absl::FunctionRef<absl::Status(int64_t bytes)> copy) {
  const int64_t small = std::min(kMostSmall, large / 2);
  ASSIGN_OR_RETURN(const double small_seconds, LeastSeconds(lane, [&] { return copy(small); }));
  ASSIGN_OR_RETURN(const double large_seconds, LeastSeconds(lane, [&] { return copy(large); }));
  // A large copy that took no longer than a small one was disturbed, or the clock is too coarse: then it is
  // all bytes.
  const double more = std::max(large_seconds - small_seconds, large_seconds / 10);
  const double bytes_per_second = static_cast<double>(large - small) / std::max(more, 1e-9);
  return CopyCost{std::max(0.0, small_seconds - static_cast<double>(small) / bytes_per_second),
                  bytes_per_second};
}

}  // namespace

absl::StatusOr<CopyCosts> MeasureCopies(DeviceQueue& queue, Buffer& over, CopyLane& lane) {
  const int64_t large = std::min(kLarge, over.size().value);
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> memory, lane.AllocatePinned({large}));
  const absl::Span<std::byte> bytes = memory->bytes();
  std::memset(bytes.data(), 0, bytes.size());
  RETURN_IF_ERROR(queue.Wait(queue.Record()));
  CopyCosts costs;
  // What the last download brings is what all uploads take back.
  ASSIGN_OR_RETURN(costs.to_host, MeasureWay(lane, large, [&](int64_t size) {
                     return lane.Download(over, {0}, bytes.first(static_cast<size_t>(size)));
                   }));
  ASSIGN_OR_RETURN(costs.to_device, MeasureWay(lane, large, [&](int64_t size) {
                     return lane.Upload(bytes.first(static_cast<size_t>(size)), over, {0});
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
  int64_t size = kLarge;
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = queue.Allocate({size});
  while (absl::IsResourceExhausted(buffer.status()) && size > kLeast) {
    size /= 2;
    buffer = queue.Allocate({size});
  }
  RETURN_IF_ERROR(buffer.status());
  return MeasureMemory(queue, **buffer, transport);
}

}  // namespace medley
