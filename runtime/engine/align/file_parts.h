#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// The container of captured calls and of their results: one JSON header and the contents of tensors.
// README.md has the layout byte by byte.
namespace medley {

// A file to be written, as pieces one after another, so that tensors need not be copied.
struct FileParts {
  std::vector<std::byte> head;
  std::vector<absl::Span<const std::byte>> bodies;  // alive as long as the value that was encoded
};

// Adds to each object of header["tensors"] the "bytes" and "xxh3" of the body of its index; there are as
// many.
FileParts EncodeParts(nlohmann::json header, std::vector<absl::Span<const std::byte>> bodies);

struct DecodedParts {
  nlohmann::json header;                            // an object; header["tensors"] is a list of objects
  std::vector<absl::Span<const std::byte>> bodies;  // into the file's bytes, parallel to header["tensors"]
};

// InvalidArgument: another magic number or version, a header over 16 MiB, no JSON object, or not as many
// bytes as the header says.
// DataLoss: a checksum is wrong, of the header or of the tensor that the message names. Allocates no more
// than the header's size a few times over.
absl::StatusOr<DecodedParts> DecodeParts(absl::Span<const std::byte> file);

// Writes `parts` to `path`, whole or not at all unless the machine goes down.
// The code and text of the system's error; ResourceExhausted: no space.
absl::Status WriteParts(const std::string& path, const FileParts& parts);

}  // namespace medley
