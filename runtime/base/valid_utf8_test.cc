#include "runtime/base/valid_utf8.h"

#include <catch2/catch.hpp>
#include <random>

namespace medley {
namespace {

constexpr char kReplaced[] = "\xef\xbf\xbd";

TEST_CASE("well-formed text stays as it is") {
  for (const std::string text : {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\x89!",
                                 "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"}) {
    CHECK(ValidUtf8(text) == text);
    CHECK(IsUtf8(text));
  }
}

TEST_CASE("what is no character is replaced byte by byte") {
  const std::string r = kReplaced;
  CHECK(ValidUtf8("caf\xe9 \xff") == "caf" + r + " " + r);
  CHECK(ValidUtf8("\xc3") == r);                  // cut
  CHECK(ValidUtf8("\xe2\x82") == r + r);          // cut
  CHECK(ValidUtf8("\xc0\x80") == r + r);          // longer than needed
  CHECK(ValidUtf8("\xe0\x80\x80") == r + r + r);  // likewise
  CHECK(ValidUtf8("\xed\xa0\x80") == r + r + r);  // a surrogate
  CHECK(ValidUtf8("\xf4\x90\x80\x80") == r + r + r + r);
  CHECK(ValidUtf8("\x80z") == r + "z");
}

TEST_CASE("any bytes become text that stays as it is") {
  const uint32_t seed = Catch::rngSeed() == 0 ? 1 : Catch::rngSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() % 128 : 128 + random() % 128);
    const std::string valid = ValidUtf8(bytes);
    CHECK(ValidUtf8(valid) == valid);
    CHECK(IsUtf8(valid));
    CHECK(IsUtf8(bytes) == (valid == bytes));
  }
}

TEST_CASE("a cut takes whole characters") {
  CHECK(CutUtf8("abc", 3) == "abc");
  CHECK(CutUtf8("ab\xc3\xa9", 3) == "ab");
  CHECK(CutUtf8("ab\xc3\xa9", 4) == "ab\xc3\xa9");
  CHECK(CutUtf8("\xf0\x9f\x8e\x89x", 3) == "");
  CHECK(CutUtf8("\x80\x80\x80\x80\x80\x80", 5).size() == 5);  // no text: anywhere
}

}  // namespace
}  // namespace medley
