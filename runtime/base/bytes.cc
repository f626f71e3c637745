#include "runtime/base/bytes.h"

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

namespace medley {

std::string FormatBytes(Bytes size) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(size.value);
  int unit = 0;
  while (std::abs(value) >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d B", size.value);
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

Bytes ParseBytes(const std::string& text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                                   {"B", 1},
                                                                   {"KiB", 1024.0},
                                                                   {"MiB", 1048576.0},
                                                                   {"GiB", 1073741824.0},
                                                                   {"TiB", 1099511627776.0},
                                                                   {"kB", 1e3},
                                                                   {"MB", 1e6},
                                                                   {"GB", 1e9},
                                                                   {"TB", 1e12}};
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  if (end == begin || !(number >= 0)) return {-1};
  while (*end == ' ') ++end;
  for (const auto& [name, factor] : kUnits) {
    if (name != std::string_view(end)) continue;
    const double value = number * factor;
    return value < 9.2e18 ? Bytes{static_cast<int64_t>(std::llround(value))} : Bytes{-1};
  }
  return {-1};
}

}  // namespace medley
