#include "runtime/engine/checkpoint/checked_json.h"

#include <xxhash.h>

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr char kOwnChecksum[] = "xxh3_64";

uint64_t ChecksumOf(const json& object) {
  const std::string text = object.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return XXH3_64bits(text.data(), text.size());
}

absl::StatusOr<json> Parse(const std::string& text, const std::string& format, IntegerRange versions) {
  ASSIGN_OR_RETURN(json object, ParseStrictJson(text));
  ASSIGN_OR_RETURN(const std::string found, StringMember(object, "format"));
  if (found != format) {
    return absl::DataLossError(absl::StrCat("\"format\" is ", Excerpt(found), ", must be \"", format, "\""));
  }
  ASSIGN_OR_RETURN(const int64_t version, IntegerMember(object, "version", {.least = 0}));
  ASSIGN_OR_RETURN(const uint64_t checksum, HexMember(object, kOwnChecksum));
  object.erase(kOwnChecksum);
  if (ChecksumOf(object) != checksum) return absl::DataLossError("its own checksum does not match it");
  if (version >= versions.least && version <= versions.most) return object;
  return absl::FailedPreconditionError(absl::StrCat("\"version\" is ", version, ", this program reads ",
                                                    versions.least, " to ", versions.most));
}

}  // namespace

std::string CheckedJsonText(const std::string& format, int version, json object) {
  object["format"] = format;
  object["version"] = version;
  object[kOwnChecksum] = HexText(ChecksumOf(object));
  return object.dump(2, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<json> ParseCheckedJson(const std::string& text, const std::string& format,
                                      IntegerRange versions) {
  absl::StatusOr<json> object = Parse(text, format, versions);
  if (absl::IsInvalidArgument(object.status())) return absl::DataLossError(object.status().message());
  return object;
}

std::string HexText(uint64_t value) { return absl::StrFormat("%016x", value); }

absl::StatusOr<uint64_t> HexMember(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, StringMember(object, name));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  // Comparing with the only spelling there is refuses the rest.
  if (error != std::errc() || end != text.data() + text.size() || HexText(value) != text) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is ", Excerpt(text), ", must be 16 lower-case hexadecimal digits"));
  }
  return value;
}

}  // namespace medley
