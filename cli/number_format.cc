#include "cli/number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace medley {

std::string FormatStepSeconds(double seconds) {
  if (!(seconds > 0)) return "-";
  if (seconds < 1e-2) return absl::StrFormat("%.2f ms", seconds * 1e3);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

std::string FormatLatency(double seconds) {
  if (!(seconds > 0)) return "-";
  if (seconds < 9.995e-7) return absl::StrFormat("%.2f us", seconds * 1e6);
  if (seconds < 9.995e-4) return absl::StrFormat("%.3g us", seconds * 1e6);
  return FormatStepSeconds(seconds);
}

std::string FormatBandwidth(double bytes_per_second) {
  if (!(bytes_per_second > 0) || !std::isfinite(bytes_per_second)) return "-";
  if (bytes_per_second >= 9.995e8) return absl::StrFormat("%.1f GB/s", bytes_per_second * 1e-9);
  if (bytes_per_second >= 9.995e5) return absl::StrFormat("%.3g MB/s", bytes_per_second * 1e-6);
  return absl::StrFormat("%.3g kB/s", bytes_per_second * 1e-3);
}

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(std::floor(seconds), 0.0, 1e15));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return absl::StrFormat("%d d %d h", days, hours % 24);
  if (hours > 0) return absl::StrFormat("%d h %02d min", hours, minutes % 60);
  if (minutes > 0) return absl::StrFormat("%d min %02d s", minutes, whole % 60);
  return absl::StrFormat("%d s", whole);
}

std::string FormatTime(double unix_seconds) {
  if (!(unix_seconds > 0)) return "-";
  const absl::Time time = absl::UnixEpoch() + absl::Seconds(unix_seconds);
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::UTCTimeZone());
}

std::string FormatRate(double per_second) {
  if (per_second < 1e3) return absl::StrFormat("%.0f", per_second);
  if (per_second < 1e6) return absl::StrFormat("%.1fk", per_second / 1e3);
  return absl::StrFormat("%.1fM", per_second / 1e6);
}

std::string FormatFlops(double per_second) {
  double value = per_second / 1e9;
  const char* unit = "G";
  for (const char* larger : {"T", "P", "E"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = larger;
  }
  return absl::StrFormat(value < 100 ? "%.1f %sFLOP/s" : "%.0f %sFLOP/s", value, unit);
}

std::string FormatAmount(double amount) {
  if (amount == 0) return "0";
  if (amount >= 1000) return absl::StrFormat("%.0f", amount);
  return amount >= 0.1 ? absl::StrFormat("%.2f", amount) : absl::StrFormat("%#.3g", amount);
}

std::string FormatDifference(double measured, double predicted) {
  if (!(measured > 0) || !(predicted > 0)) return "";
  return absl::StrFormat("%+.1f %%", (measured / predicted - 1) * 100);
}

std::string FormatParameters(double parameters) {
  if (parameters < 1e6) return absl::StrFormat("%.1fk", parameters / 1e3);
  if (parameters < 1e9) return absl::StrFormat("%.1fM", parameters / 1e6);
  return absl::StrFormat("%.1fB", parameters / 1e9);
}

}  // namespace medley
