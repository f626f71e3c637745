#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// Bytes a second at which a file of 64 MiB in `directory`, which nobody else sees by name and which is gone afterwards, is written and
// reaches the disk. Unavailable: it cannot be written, with the system's reason.
absl::StatusOr<double> WritingSpeed(const std::string& directory);

}  // namespace medley
