#pragma once
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace medley {

// `text` with U+FFFD in place of each byte that is no part of well-formed UTF-8 (RFC 3629: no surrogates,
// nothing over U+10FFFF, no longer form than needed). What other programs print, what() and the system say
// may be in any encoding; messages and the store take UTF-8 alone.
std::string ValidUtf8(absl::string_view text);

// What a `string` field may hold: `text` is ValidUtf8 as it is.
bool IsUtf8(absl::string_view text);

// The longest beginning of `text` that has at most `bytes` bytes and does not cut a character in two.
absl::string_view CutUtf8(absl::string_view text, size_t bytes);

}  // namespace medley
