#include "runtime/base/files/strict_json.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("JSON is read as it stands") {
  const auto value = ParseStrictJson(R"({"a": {"x": 1}, "b": [{"x": 2}, {"x": 3}]})");
  REQUIRE(value.ok());
  CHECK(*value == json{{"a", {{"x", 1}}}, {"b", {{{"x", 2}}, {{"x", 3}}}}});
}

TEST_CASE("what is not JSON, ambiguous or nested without end is refused with the reason") {
  struct Case {
    std::string text, reason;
  };
  const auto c = GENERATE(values<Case>({
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{} {}", "not JSON"},
      {"\"\xff\"", "not JSON"},
      {"1e999", "not JSON"},
      {R"({"a": 1, "a": 1})", "\"a\" stands twice"},
      {R"([{"b": {"c": 1, "c": 2}}])", "\"c\" stands twice"},
      {std::string(1'000'000, '['), "nested deeper"},
      {std::string(17, '[') + std::string(17, ']'), "nested deeper"},
  }));
  CAPTURE(c.text.substr(0, 40));
  const auto value = ParseStrictJson(c.text);
  REQUIRE(absl::IsInvalidArgument(value.status()));
  CHECK_THAT(std::string(value.status().message()), Contains(c.reason));
  CHECK(ParseStrictJson(std::string(16, '[') + std::string(16, ']')).ok());
}

TEST_CASE("a member of the wrong type or size is refused with its name and value") {
  const json object = {{"text", "x"}, {"seven", 7}, {"minus", -1}, {"half", 0.5}, {"large", ~uint64_t{0}}};
  CHECK(*IntegerMember(object, "seven", {0, 7}) == 7);
  CHECK(*UnsignedMember(object, "large") == ~uint64_t{0});
  CHECK(*NumberMember(object, "seven") == 7.0);
  CHECK(*StringMember(object, "text") == "x");
  for (const absl::Status& status :
       {IntegerMember(object, "seven", {0, 6}).status(), IntegerMember(object, "seven", {8, 9}).status()}) {
    CHECK_THAT(std::string(status.message()), Contains("\"seven\" is 7, must be an integer from"));
  }
  CHECK(absl::IsInvalidArgument(IntegerMember(object, "large", {}).status()));
  CHECK(absl::IsInvalidArgument(IntegerMember(object, "half", {}).status()));
  CHECK(absl::IsInvalidArgument(UnsignedMember(object, "minus").status()));
  CHECK(absl::IsInvalidArgument(NumberMember(object, "text").status()));
  CHECK(absl::IsInvalidArgument(StringMember(object, "half").status()));
  CHECK_THAT(std::string(StringMember(object, "none").status().message()), Contains("\"none\" is missing"));
  CHECK_THAT(std::string(StringMember(json(3), "none").status().message()), Contains("not an object"));
}

TEST_CASE("an excerpt is short and plain, whatever the value") {
  CHECK(Excerpt("\xff\n") == "\"\\ufffd\\n\"");
  CHECK(Excerpt(std::string(1000, 'x')).size() == 60);
}

}  // namespace
}  // namespace medley
