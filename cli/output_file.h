#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// Writes `text` over whatever the file has. Unavailable: it cannot be written; names it.
absl::Status WriteOutputFile(const std::string& path, const std::string& text);

}  // namespace medley
