#include "runtime/ir/link/link_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Seconds a byte beyond the last point.
double SlopeBeyond(const std::vector<LinkPoint>& points) {
  if (points.empty()) return 0;
  const LinkPoint& last = points.back();
  if (points.size() == 1) return last.bytes > 0 ? last.seconds / last.bytes : 0;
  // Noise may make the last measurements level, which says nothing of how larger messages go on.
  size_t before = points.size() - 2;
  while (before > 0 && points[before].seconds == last.seconds) --before;
  return (last.seconds - points[before].seconds) / (last.bytes - points[before].bytes);
}

// Smaller ones would make slopes without end.
constexpr double kSmallestBytes = 1e-9;

absl::Status CheckNumber(size_t point, const char* field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("[", point, "].", field, ": ", value, "; must be finite and not negative"));
}

}  // namespace

double LinkModel::Seconds(double bytes) const {
  if (points.empty()) return 0;
  if (bytes <= points.front().bytes) return points.front().seconds;
  if (bytes > points.back().bytes) {
    return points.back().seconds + (bytes - points.back().bytes) * SlopeBeyond(points);
  }
  // Models have few points.
  size_t right = 1;
  while (points[right].bytes < bytes) ++right;
  const LinkPoint &a = points[right - 1], &b = points[right];
  return a.seconds + (b.seconds - a.seconds) * ((bytes - a.bytes) / (b.bytes - a.bytes));
}

double LinkModel::BytesPerSecond() const {
  const double slope = SlopeBeyond(points);
  return slope > 0 ? 1 / slope : std::numeric_limits<double>::infinity();
}

LinkModel LinkModel::Line(double latency_seconds, double bytes_per_second) {
  LinkModel model{{{0, latency_seconds}}};
  // The bytes of a second, so that the latency does not swallow the slope's digits.
  if (std::isfinite(bytes_per_second)) model.points.push_back({bytes_per_second, latency_seconds + 1});
  return model;
}

double GreatestRelativeError(const LinkModel& model, absl::Span<const LinkPoint> samples) {
  double greatest = 0;
  for (const LinkPoint& sample : samples) {
    const double error = std::abs(model.Seconds(sample.bytes) - sample.seconds);
    if (error > 0) greatest = std::max(greatest, error / sample.seconds);
  }
  return greatest;
}

absl::Status CheckLinkModel(const LinkModel& model) {
  for (size_t i = 0; i < model.points.size(); ++i) {
    const LinkPoint& point = model.points[i];
    RETURN_IF_ERROR(CheckNumber(i, "bytes", point.bytes));
    RETURN_IF_ERROR(CheckNumber(i, "seconds", point.seconds));
    if (point.bytes > 0 && point.bytes < kSmallestBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("[", i, "].bytes: ", point.bytes, "; must be 0, or ", kSmallestBytes, " or more"));
    }
    if (i == 0) continue;
    const LinkPoint& before = model.points[i - 1];
    if (point.bytes <= before.bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("[", i, "].bytes: ", point.bytes, " after ", before.bytes, "; must ascend"));
    }
    if (point.seconds < before.seconds) {
      return absl::InvalidArgumentError(
          absl::StrCat("[", i, "].seconds: ", point.seconds, " after ", before.seconds, "; must not fall"));
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
