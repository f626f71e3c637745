#pragma once
#include <string>

#include "absl/strings/str_format.h"

// Figures as an explanation has them, for people.
namespace medley {

// 0.5: "50 %".
inline std::string FormatPercent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// "5.0 us", "5.00 ms" or "5.00 s".
inline std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

}  // namespace medley
