#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/ir/link/link_model.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One a size, ascending: the medians.
std::vector<LinkPoint> MediansBySize(absl::Span<const LinkPoint> samples) {
  std::vector<LinkPoint> sorted;
  for (const LinkPoint& sample : samples) {
    const bool counts = std::isfinite(sample.bytes) && std::isfinite(sample.seconds) && sample.bytes >= 0 &&
                        sample.seconds >= 0;
    if (counts) sorted.push_back(sample);
  }
  std::sort(sorted.begin(), sorted.end(), [](const LinkPoint& a, const LinkPoint& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  std::vector<LinkPoint> medians;
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin;
    while (end < sorted.size() && sorted[end].bytes == sorted[begin].bytes) ++end;
    const size_t upper = begin + (end - begin) / 2, lower = begin + (end - begin - 1) / 2;
    medians.push_back({sorted[begin].bytes, (sorted[lower].seconds + sorted[upper].seconds) / 2});
    begin = end;
  }
  return medians;
}

// The nearest that does not fall, by least squares: runs that fall become their mean.
std::vector<LinkPoint> NotFalling(const std::vector<LinkPoint>& points) {
  struct Run {
    double sum = 0;
    size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Run> runs;
  for (const LinkPoint& point : points) {
    runs.push_back({point.seconds, 1});
    while (runs.size() > 1 && runs[runs.size() - 2].mean() > runs.back().mean()) {
      const Run last = runs.back();
      runs.pop_back();
      runs.back().sum += last.sum;
      runs.back().count += last.count;
    }
  }
  std::vector<LinkPoint> result = points;
  size_t next = 0;
  for (const Run& run : runs) {
    for (size_t i = 0; i < run.count; ++i) result[next++].seconds = run.mean();
  }
  return result;
}

// Relative errors at the samples that a line covers, its right end among them and its left end not.
struct LineError {
  double greatest = 0;
  double squares = 0;
};

class Fit {
 public:
  Fit(std::vector<LinkPoint> samples, double tolerance)
      : samples_(std::move(samples)), points_(NotFalling(samples_)), tolerance_(tolerance) {
    const int n = static_cast<int>(samples_.size());
    errors_.assign(n + 1, std::vector<LineError>(n));
    for (int left = -1; left < n; ++left) {
      for (int right = left + 1; right < n; ++right) errors_[left + 1][right] = ErrorOf(left, right);
    }
  }

  LinkModel Run(int most) const {
    const int n = static_cast<int>(samples_.size());
    const std::vector<double> least = LeastGreatestErrors(std::clamp(most, 1, n));
    const double allowed = std::max(tolerance_, *std::min_element(least.begin(), least.end()));
    int count = 1;
    while (least[count - 1] > allowed) ++count;
    return LeastSquares(count, allowed);
  }

 private:
  // The error of the line between points `left` and `right`; from left = -1 it is level.
  LineError ErrorOf(int left, int right) const {
    LinkModel line;
    if (left >= 0) line.points.push_back(points_[left]);
    line.points.push_back(points_[right]);
    LineError result;
    for (int i = left + 1; i <= right; ++i) {
      const double error = GreatestRelativeError(line, absl::MakeSpan(&samples_[i], 1));
      result.greatest = std::max(result.greatest, error);
      result.squares += error * error;
    }
    return result;
  }

  // With 1, 2, ..., `most` points that end at the last sample: the greatest error at least.
  std::vector<double> LeastGreatestErrors(int most) const {
    const int n = static_cast<int>(samples_.size());
    std::vector<double> least, best(n), next(n);
    for (int right = 0; right < n; ++right) best[right] = errors_[0][right].greatest;
    for (int count = 1; count <= most; ++count) {
      least.push_back(best[n - 1]);
      for (int right = 0; right < n; ++right) {
        next[right] = kInfinity;
        for (int left = 0; left < right; ++left) {
          next[right] = std::min(next[right], std::max(best[left], errors_[left + 1][right].greatest));
        }
      }
      best.swap(next);
    }
    return least;
  }

  // `count` points, no error above `allowed`, which can be had.
  LinkModel LeastSquares(int count, double allowed) const {
    const int n = static_cast<int>(samples_.size());
    std::vector<std::vector<double>> best(count, std::vector<double>(n, kInfinity));
    std::vector<std::vector<int>> before(count, std::vector<int>(n, -1));
    for (int used = 0; used < count; ++used) {
      for (int right = 0; right < n; ++right) {
        for (int left = used == 0 ? -1 : 0; left < (used == 0 ? 0 : right); ++left) {
          const LineError& error = errors_[left + 1][right];
          const double squares = (left < 0 ? 0 : best[used - 1][left]) + error.squares;
          if (error.greatest > allowed || squares >= best[used][right]) continue;
          best[used][right] = squares;
          before[used][right] = left;
        }
      }
    }
    LinkModel model;
    for (int used = count - 1, at = n - 1; used >= 0; at = before[used--][at])
      model.points.push_back(points_[at]);
    std::reverse(model.points.begin(), model.points.end());
    return model;
  }

  const std::vector<LinkPoint> samples_;  // medians
  const std::vector<LinkPoint> points_;   // that the model may have
  const double tolerance_;
  std::vector<std::vector<LineError>> errors_;  // [left + 1][right]
};

}  // namespace

LinkModel FitLinkModel(absl::Span<const LinkPoint> samples, double tolerance, int most) {
  std::vector<LinkPoint> medians = MediansBySize(samples);
  if (medians.empty()) return {};
  return Fit(std::move(medians), tolerance).Run(most);
}

}  // namespace medley
