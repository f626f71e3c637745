#include "agent/profile/pass_samples.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/base/quantile.h"

namespace medley {
namespace {

// A round that waited so much of its time was disturbed.
constexpr double kDisturbedShare = 0.03;
// A pass computes at least this share of its time, whatever it is said to have waited.
constexpr double kLeastComputed = 0.1;
// Beside so few as three others of equal weight a profile is still about this device.
constexpr double kMostSlowdown = 4;
// Samples are left out beyond so many distances of the quartiles, or beyond this share of the median.
constexpr double kFence = 1.5, kLeastFence = 0.02;

// The kernel books waiting by moments of its own and by clocks of several cores: it may name more than the whole.
double ComputedSeconds(const PassSample& sample) {
  return std::max(sample.seconds - sample.waited_seconds, kLeastComputed * sample.seconds);
}

}  // namespace

Middle MiddleOf(const std::vector<PassSample>& samples) {
  std::vector<double> sorted;
  for (const PassSample& sample : samples) sorted.push_back(ComputedSeconds(sample));
  std::sort(sorted.begin(), sorted.end());
  const double low = Quantile(sorted, 0.25), median = Quantile(sorted, 0.5), high = Quantile(sorted, 0.75);
  const double fence = std::max(kFence * (high - low), kLeastFence * median);
  double sum = 0;
  int count = 0;
  for (const double seconds : sorted) {
    if (seconds < low - fence || seconds > high + fence) continue;
    sum += seconds;
    ++count;
  }
  // The median always lies within the fences, though of an even number it may be no sample.
  return {count > 0 ? sum / count : median, median > 0 ? (high - low) / 2 / median : 0};
}

double ForeignSlowdown(const std::vector<PassSample>& rounds) {
  double seconds = 0, computed_seconds = 0;
  size_t disturbed = 0;
  for (const PassSample& round : rounds) {
    seconds += round.seconds;
    computed_seconds += ComputedSeconds(round);
    if (round.waited_seconds > kDisturbedShare * round.seconds) ++disturbed;
  }
  if (5 * disturbed < rounds.size() || computed_seconds <= 0) return 1;
  return seconds / computed_seconds;
}

std::string DoubtOfSlowdown(double slowdown) {
  if (slowdown <= kMostSlowdown) return "";
  return absl::StrFormat("others had the processor for %.0f %% of the time", 100 * (1 - 1 / slowdown));
}

}  // namespace medley
