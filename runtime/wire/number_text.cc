#include "runtime/wire/number_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"

namespace medley {

std::string NumberText(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::signbit(value) && value == 0 ? "-0.0" : absl::StrFormat("%.0f", value);
  }
  char text[64];
  const std::to_chars_result result = std::to_chars(text, text + sizeof text, value);
  return std::string(text, result.ptr);
}

}  // namespace medley
