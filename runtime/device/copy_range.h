#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/bytes.h"

namespace medley {

// Checks a copy of `count` bytes from or to byte `offset` of a buffer of `buffer` bytes. OutOfRange: it would
// pass an end; the message begins with `what`, as in "Upload", and has all three.
inline absl::Status CheckCopyRange(const char* what, Bytes buffer, Bytes offset, size_t count) {
  if (offset.value >= 0 && offset.value <= buffer.value &&
      count <= static_cast<size_t>(buffer.value - offset.value)) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(
      absl::StrCat(what, " of ", count, " B at byte ", offset.value, " of a buffer of ", buffer.value, " B"));
}

}  // namespace medley
