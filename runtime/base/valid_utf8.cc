#include "runtime/base/valid_utf8.h"

#include <cstdint>

namespace medley {
namespace {

bool Continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Bytes of the well-formed character that `text` begins with; 0 if it begins with none.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xc2 && first <= 0xdf   ? 2
                       : first >= 0xe0 && first <= 0xef ? 3
                       : first >= 0xf0 && first <= 0xf4 ? 4
                                                        : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!Continues(byte(i))) return 0;
  }
  const unsigned char second = byte(1);
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool too_high = first == 0xf4 && second > 0x8f;
  return too_long || surrogate || too_high ? 0 : bytes;
}

}  // namespace

std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) {
      valid += "\xef\xbf\xbd";
    } else {
      valid.append(text.data(), bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

absl::string_view CutUtf8(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && bytes - end < 3 && Continues(static_cast<unsigned char>(text[end]))) --end;
  // Only where a character begins there; other bytes are cut anywhere.
  if (Continues(static_cast<unsigned char>(text[end]))) end = bytes;
  return text.substr(0, end);
}

}  // namespace medley
