#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// The moment that `text` means, Unix seconds: so long before `now_unix_seconds` ("90s", "10m", "1h30m",
// "2d"), or a date with or without a time, in UTC as the logs show it ("2026-11-21", "2026-11-21 03:37",
// "2026-11-21 03:37:49"). InvalidArgument "--since: ...": it is neither, or not positive.
absl::StatusOr<double> ParseSince(const std::string& text, double now_unix_seconds);

// Seconds of "90s", "10m", "1h30m" or "2d". InvalidArgument "OPTION TEXT: ...": it is none of these, or not positive.
absl::StatusOr<double> ParseLength(const std::string& option, const std::string& text);

}  // namespace medley
