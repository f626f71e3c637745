#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// "4293823 bytes hash 0123456789abcdef": a file's size, and XXH3 over 64 pieces of 4 KiB that are spread
// evenly over it, the first and the last bytes among them; a file of at most 256 KiB is hashed whole. Equal
// for equal files; files that differ in a part that no piece covers have equal fingerprints, too. Reads by
// read(2). Errors: those of FileReader.
absl::StatusOr<std::string> FileFingerprint(const std::string& path);

}  // namespace medley
