#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

// JSON from files that others may have written: never crashes, recurses or throws, and says what is wrong.
namespace medley {

inline constexpr int kDeepestJson = 16;  // objects and arrays inside one another

// InvalidArgument: not JSON (with the byte), nested deeper than kDeepestJson, or a name twice in one object.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text);

struct IntegerRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

// Members of a JSON object. InvalidArgument: `object` is no object, or has no member `name`, or one of
// another type or outside `range`; the message names the member, its value and what is allowed.
absl::StatusOr<int64_t> IntegerMember(const nlohmann::json& object, const std::string& name,
                                      IntegerRange range);
absl::StatusOr<uint64_t> UnsignedMember(const nlohmann::json& object, const std::string& name);
absl::StatusOr<double> NumberMember(const nlohmann::json& object, const std::string& name);
absl::StatusOr<std::string> StringMember(const nlohmann::json& object, const std::string& name);
// The result lives as long as `object`.
absl::StatusOr<const nlohmann::json*> Member(const nlohmann::json& object, const std::string& name);

// At most 60 bytes of `value`, for a message.
std::string Excerpt(const nlohmann::json& value);

}  // namespace medley
