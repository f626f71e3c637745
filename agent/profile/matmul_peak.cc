#include "agent/profile/matmul_peak.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/narrow.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kLeastRows = 256, kMostRows = 8192;
constexpr double kLongSeconds = 0.05;  // of one product: larger ones are no faster
constexpr int kRounds = 4;

// A square matrix of numbers that are neither zero nor alike.
absl::StatusOr<std::unique_ptr<Buffer>> Square(DeviceQueue& queue, int64_t rows, Dtype dtype) {
  const size_t count = static_cast<size_t>(rows * rows), size = static_cast<size_t>(SizeOf(dtype).value);
  ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, queue.Allocate(Bytes{static_cast<int64_t>(count * size)}));
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    if (dtype == Dtype::kF32) {
      std::memcpy(&bytes[i * size], &value, sizeof(value));
    } else {
      const uint16_t narrow = ToNarrow(value, dtype);
      std::memcpy(&bytes[i * size], &narrow, sizeof(narrow));
    }
  }
  RETURN_IF_ERROR(queue.Upload(bytes, *buffer, Bytes{0}));
  return buffer;
}

// The least seconds of some products of that size, as of a gradient of weights.
absl::StatusOr<double> ProductSeconds(Device& device, Precision precision, int64_t rows) {
  const Dtype dtype = TypeOf(precision);
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> a, Square(*device.queue, rows, dtype));
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> b, Square(*device.queue, rows, dtype));
  ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> c, Square(*device.queue, rows, Dtype::kF32));
  const auto all_of = [&](Buffer& buffer, Dtype type) { return Slice{&buffer, 0, rows * rows, type}; };
  const MatmulArgs product{.a = all_of(*a, dtype),
                           .b = all_of(*b, dtype),
                           .c = all_of(*c, Dtype::kF32),
                           .m = rows,
                           .n = rows,
                           .k = rows,
                           .transpose_a = Transpose::kYes,
                           .store = Store::kAdd,
                           .precision = precision};
  double least_seconds = 0;
  for (int round = 0; round < kRounds && least_seconds < kLongSeconds; ++round) {
    RETURN_IF_ERROR(device.queue->Wait(device.queue->Record()));
    const absl::Time start = Now();
    RETURN_IF_ERROR(device.ops->Matmul(product));
    RETURN_IF_ERROR(device.queue->Wait(device.queue->Record()));
    const double seconds = std::max(1e-9, absl::ToDoubleSeconds(Now() - start));
    least_seconds = round == 0 ? seconds : std::min(least_seconds, seconds);
    Progress::OfProcess().Add();
  }
  return least_seconds;
}

}  // namespace

absl::StatusOr<double> MeasureMatmulPeak(Device& device, Precision precision) {
  precision = device.computes.For(precision);
  double most = 0;
  for (int64_t rows = kLeastRows; rows <= kMostRows; rows *= 2) {
    const absl::StatusOr<double> seconds = ProductSeconds(device, precision, rows);
    // What fits no more is not needed.
    if (!seconds.ok() && most > 0 && absl::IsResourceExhausted(seconds.status())) break;
    RETURN_IF_ERROR(seconds.status());
    const double edge = static_cast<double>(rows);
    most = std::max(most, 2 * edge * edge * edge / *seconds);
    if (*seconds >= kLongSeconds) break;
  }
  return most;
}

}  // namespace medley
