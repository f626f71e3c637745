#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/types/span.h"

namespace medley {

// Writes all of `bytes`, in as many calls as the system makes of it. 0, or the system's error number.
inline int WriteAll(int descriptor, absl::Span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace medley
