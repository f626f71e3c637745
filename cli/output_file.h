#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// Of what was just tried to be written, with the system's reason if errno has one. Unavailable.
absl::Status CannotWrite(const std::string& what);

// What can be known of `file` before the work is done that it is for; "-", standard output, and an empty name are
// good. InvalidArgument: it is a folder, or there is no folder for it, or none that may be looked at; begins with
// `option`.
absl::Status CheckOutputFile(const std::string& option, const std::string& file);

// Writes `text` over whatever the file has. Unavailable: it cannot be written; names it and says why.
absl::Status WriteOutputFile(const std::string& path, const std::string& text);

}  // namespace medley
