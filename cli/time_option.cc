#include "cli/time_option.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace medley {
namespace {

// absl's durations end with hours.
bool ParseDays(const std::string& text, absl::Duration* duration) {
  double days;
  if (text.empty() || text.back() != 'd' || !absl::SimpleAtod(text.substr(0, text.size() - 1), &days))
    return false;
  *duration = days * absl::Hours(24);
  return true;
}

bool ParsePositive(const std::string& text, absl::Duration* duration) {
  return (absl::ParseDuration(text, duration) || ParseDays(text, duration)) &&
         *duration > absl::ZeroDuration() && *duration != absl::InfiniteDuration();
}

}  // namespace

absl::StatusOr<double> ParseLength(const std::string& option, const std::string& text) {
  absl::Duration length;
  if (ParsePositive(text, &length)) return absl::ToDoubleSeconds(length);
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", text, ": must be a length of time above 0, as in 90s, 10m, 1h30m or 2d"));
}

absl::StatusOr<double> ParseSince(const std::string& text, double now_unix_seconds) {
  absl::Duration ago;
  if (ParsePositive(text, &ago)) return now_unix_seconds - absl::ToDoubleSeconds(ago);
  for (const char* format : {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    absl::Time time;
    std::string error;
    if (absl::ParseTime(format, text, absl::UTCTimeZone(), &time, &error) && time > absl::UnixEpoch() &&
        time != absl::InfiniteFuture()) {
      return absl::ToDoubleSeconds(time - absl::UnixEpoch());
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--since: \"", text,
                   "\" must be how long ago (90s, 10m, 2h, 1d) or a moment (2026-11-21 03:37:49, UTC)"));
}

}  // namespace medley
