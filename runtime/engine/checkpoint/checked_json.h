#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/files/strict_json.h"

// JSON objects that say of what format and version they are, and carry a checksum over themselves: "xxh3_64",
// XXH3 over the rest as compact text with sorted names, so that layout and order do not matter.
namespace medley {

// The text of `object` with "format", "version" and the checksum.
std::string CheckedJsonText(const std::string& format, int version, nlohmann::json object);

// The inverse; the result has "version", and no checksum.
//   DataLoss             not JSON, another format, or a wrong checksum.
//   FailedPrecondition   a version outside `versions`.
absl::StatusOr<nlohmann::json> ParseCheckedJson(const std::string& text, const std::string& format,
                                                IntegerRange versions);

// 16 lower-case hexadecimal digits, and back (InvalidArgument: it is something else).
std::string HexText(uint64_t value);
absl::StatusOr<uint64_t> HexMember(const nlohmann::json& object, const std::string& name);

}  // namespace medley
