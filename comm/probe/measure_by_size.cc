#include "comm/probe/measure_by_size.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kSizes[] = {8,        512,       4 << 10, 8 << 10, 16 << 10, 32 << 10,
                             64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20,  kMostProbeBytes};

// A visit takes so long, or longer for kBurstBytes, but then no longer than the second figure.
constexpr double kVisitSeconds = 0.006, kLongestVisitSeconds = 0.03;
// That a rate limit may let through before it limits.
constexpr size_t kBurstBytes = 256 << 10;
constexpr size_t kMostMessages = 300;  // in a visit
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

double ProbeMedian(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return std::max(values[values.size() / 2], 1e-9);  // a clock may tick too seldom
}

absl::Status VisitSize(MeasureSize measure, size_t bytes, std::vector<double>& seconds) {
  std::vector<double> all;
  double spent = 0;
  for (int times = 1; times > 0;) {
    ASSIGN_OR_RETURN(const std::vector<double> more, measure(bytes, times));
    for (const double one : more) spent += 2 * one;
    all.insert(all.end(), more.begin(), more.end());
    const double each = 2 * ProbeMedian(more);
    const double missing = std::max(
        (kVisitSeconds - spent) / each,
        static_cast<double>(kBurstBytes) / static_cast<double>(bytes) - static_cast<double>(all.size()));
    const double possible = std::min((kLongestVisitSeconds - spent) / each,
                                     static_cast<double>(kMostMessages) - static_cast<double>(all.size()));
    // Not many at once on the word of few.
    times = static_cast<int>(std::min({missing, possible, 2.0 * static_cast<double>(all.size())}));
    const size_t least = each < kVeryLongSeconds ? 4 : 3;
    if (times <= 0 && all.size() < least) times = static_cast<int>(least - all.size());
  }
  seconds.insert(seconds.end(), all.begin() + static_cast<ptrdiff_t>(all.size() / 2), all.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LinkPoint>> MeasureBySize(MeasureSize measure) {
  struct Size {
    size_t bytes = 0;
    double whole_seconds = 0;  // both ways, or both rounds
    std::vector<double> seconds;
  };
  std::vector<Size> sizes;
  for (const size_t bytes : kSizes) {
    Size& size = sizes.emplace_back();
    size.bytes = bytes;
    RETURN_IF_ERROR(VisitSize(measure, bytes, size.seconds));
    size.whole_seconds = 2 * ProbeMedian(size.seconds);
    if (!TryLargerSize(bytes, size.whole_seconds)) break;
  }
  for (int i = 1; i < kProbeVisits; ++i) {
    for (Size& size : sizes) {
      if (!VisitOnce(size.whole_seconds)) RETURN_IF_ERROR(VisitSize(measure, size.bytes, size.seconds));
    }
  }
  std::vector<LinkPoint> points;
  for (const Size& size : sizes)
    points.push_back({static_cast<double>(size.bytes), ProbeMedian(size.seconds)});
  return points;
}

}  // namespace medley
