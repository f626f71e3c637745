#include "runtime/security/join_token.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

const std::string kAuthority(64, 'a');

TEST_CASE("a token is read as it was made, and no two are alike") {
  const absl::StatusOr<JoinTokenText> made = NewJoinToken(kAuthority), other = NewJoinToken(kAuthority);
  REQUIRE(made.ok());
  REQUIRE(other.ok());
  CHECK(made->id != other->id);
  CHECK(made->secret != other->secret);
  const std::string text = FormatJoinToken(*made);
  CHECK(text == absl::StrCat("medley1.", made->id, ".", made->secret, ".", kAuthority));
  for (const std::string& written : {text, absl::StrCat("\n ", text, " \r\n")}) {
    const absl::StatusOr<JoinTokenText> read = ParseJoinToken(written);
    REQUIRE(read.ok());
    CHECK(read->id == made->id);
    CHECK(read->secret == made->secret);
    CHECK(read->authority == kAuthority);
  }
}

TEST_CASE("a token that is cut anywhere, or changed, is refused without being repeated") {
  const JoinTokenText made = *NewJoinToken(kAuthority);
  const std::string text = FormatJoinToken(made);
  for (size_t size = 0; size < text.size(); ++size) {
    const absl::Status cut = ParseJoinToken(text.substr(0, size)).status();
    CHECK(absl::IsInvalidArgument(cut));
    CHECK_THAT(std::string(cut.message()), !Catch::Contains(made.secret));
  }
  for (const std::string& wrong :
       {text + "0", text + ".", "x" + text, "medley2" + text.substr(7), absl::StrCat(text, "\n", text),
        text.substr(0, 10) + "G" + text.substr(11), text.substr(0, 10) + " " + text.substr(11)}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(ParseJoinToken(wrong).status()));
  }
}

TEST_CASE("a secret has its own hash and no other") {
  const std::string hash = HashOfSecret("abc");
  CHECK(hash.size() == 32);
  CHECK(HasHash("abc", hash));
  CHECK_FALSE(HasHash("abd", hash));
  CHECK_FALSE(HasHash("", hash));
  CHECK_FALSE(HasHash("abc", ""));
  CHECK_FALSE(HasHash("abc", hash.substr(1)));
}

}  // namespace
}  // namespace medley
