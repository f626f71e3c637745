#include "comm/probe/measure_by_size.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kSizes[] = {8,        512,       4 << 10, 8 << 10, 16 << 10, 32 << 10,
                             64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20,  kMostProbeBytes};

constexpr double kSecondsAVisit = 0.006;
constexpr double kLongSeconds = 0.06;  // a size beyond one that took so long would take a second
constexpr double kVeryLongSeconds = 0.25;
constexpr double kTooLongSeconds = 0.7;  // 1 Mbit/s gets as far as kBeyondBursts
// Rate limits let through bursts of tens of kilobytes; below, a link seems faster than it is.
constexpr size_t kBeyondBursts = 64 << 10;

// Whether the next larger size is worth its time, when one of `bytes` took `seconds`.
bool TryLargerSize(size_t bytes, double seconds) {
  return seconds < (bytes < kBeyondBursts ? kTooLongSeconds : kLongSeconds);
}

}  // namespace

bool VisitOnce(double seconds) { return seconds >= kLongSeconds; }

int ProbeRepetitions(double seconds) {
  const int least = VisitOnce(seconds) && seconds < kVeryLongSeconds ? 3 : 2;
  const double fitting = std::min(kSecondsAVisit / std::max(seconds, 1e-9), 80.0);
  return std::max(least, static_cast<int>(fitting));
}

double ProbeMedian(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return std::max(values[values.size() / 2], 1e-9);  // a clock may tick too seldom
}

absl::StatusOr<std::vector<LinkPoint>> MeasureBySize(MeasureSize measure) {
  struct Size {
    size_t bytes = 0;
    double whole_seconds = 0;  // both ways, or both rounds
    std::vector<double> seconds;
  };
  std::vector<Size> sizes;
  const auto visit = [&](Size& size) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<double> more, measure(size.bytes, ProbeRepetitions(size.whole_seconds)));
    size.seconds.insert(size.seconds.end(), more.begin(), more.end());
    return absl::OkStatus();
  };
  for (const size_t bytes : kSizes) {
    ASSIGN_OR_RETURN(const std::vector<double> first, measure(bytes, 1));
    sizes.push_back({bytes, 2 * first[0], {}});
    RETURN_IF_ERROR(visit(sizes.back()));
    sizes.back().whole_seconds = 2 * ProbeMedian(sizes.back().seconds);
    if (!TryLargerSize(bytes, sizes.back().whole_seconds)) break;
  }
  for (int i = 1; i < kProbeVisits; ++i) {
    for (Size& size : sizes) {
      if (!VisitOnce(size.whole_seconds)) RETURN_IF_ERROR(visit(size));
    }
  }
  std::vector<LinkPoint> points;
  for (const Size& size : sizes) points.push_back({static_cast<double>(size.bytes), ProbeMedian(size.seconds)});
  return points;
}

}  // namespace medley
