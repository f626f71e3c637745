#include "runtime/base/files/strict_json.h"

#include <set>
#include <stdexcept>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using nlohmann::json;

// Thrown through the library's parser, which knows no other way to be stopped, and caught in ParseStrictJson.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

absl::Status WrongMember(const json& value, const std::string& name, const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is ", Excerpt(value), ", must be ", allowed));
}

}  // namespace

absl::StatusOr<json> ParseStrictJson(std::string_view text) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto watch = [&names](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= kDeepestJson) throw Refusal(absl::StrCat("nested deeper than ", kDeepestJson));
        if (event == json::parse_event_t::object_start) names.emplace_back();
        break;
      case json::parse_event_t::key:
        if (!names.back().insert(value.get_ref<const std::string&>()).second) {
          throw Refusal(absl::StrCat("the name ", Excerpt(value), " stands twice in one object"));
        }
        break;
      case json::parse_event_t::object_end:
        names.pop_back();
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", error.what()));
  } catch (const Refusal& refusal) {
    return absl::InvalidArgumentError(absl::StrCat("JSON refused: ", refusal.what()));
  }
}

absl::StatusOr<const json*> Member(const json& object, const std::string& name) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" asked of ", Excerpt(object), ", not an object"));
  }
  const auto found = object.find(name);
  if (found == object.end()) return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is missing"));
  return &*found;
}

absl::StatusOr<int64_t> IntegerMember(const json& object, const std::string& name, IntegerRange range) {
  ASSIGN_OR_RETURN(const json* value, Member(object, name));
  const std::string allowed = absl::StrCat("an integer from ", range.least, " to ", range.most);
  if (!value->is_number_integer()) return WrongMember(*value, name, allowed);
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return WrongMember(*value, name, allowed);
  }
  const int64_t integer = value->get<int64_t>();
  if (integer < range.least || integer > range.most) return WrongMember(*value, name, allowed);
  return integer;
}

absl::StatusOr<uint64_t> UnsignedMember(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const json* value, Member(object, name));
  if (!value->is_number_unsigned()) return WrongMember(*value, name, "an integer from 0 to 2^64 - 1");
  return value->get<uint64_t>();
}

absl::StatusOr<double> NumberMember(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const json* value, Member(object, name));
  if (!value->is_number()) return WrongMember(*value, name, "a number");
  return value->get<double>();
}

absl::StatusOr<std::string> StringMember(const json& object, const std::string& name) {
  ASSIGN_OR_RETURN(const json* value, Member(object, name));
  if (!value->is_string()) return WrongMember(*value, name, "a string");
  return value->get<std::string>();
}

std::string Excerpt(const json& value) {
  constexpr size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

}  // namespace medley
