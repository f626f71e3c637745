#include "runtime/wire/name_list.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("names are listed as ranges of numbers with what is before and behind them") {
  const auto [text, names] = GENERATE(table<std::string, Names>({
      {"alpha", {"alpha"}},
      {"n[7]", {"n7"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[098-100,7,0]", {"n098", "n099", "n100", "n7", "n0"}},
      {"a-1,n[1,3].rack2,b", {"a-1", "n1.rack2", "n3.rack2", "b"}},
      {"[1-2]", {"1", "2"}},
  }));
  CAPTURE(text);
  const absl::StatusOr<Names> parsed = ParseNameList(text);
  REQUIRE(parsed.status().ToString() == "OK");
  CHECK(*parsed == names);
}

TEST_CASE("what lists no names is refused") {
  const auto [text, why] = GENERATE(table<std::string, std::string>({
      {"n[3-1]", "\"3-1\" ends before it begins"},
      {"n[1-x]", "\"1-x\" must be a whole number or a range of them, as in 7 or 001-064"},
      {"n[1-2-3]", "\"1-2-3\" must be a whole number or a range of them, as in 7 or 001-064"},
      {"n[]", "\"\" must be a whole number or a range of them, as in 7 or 001-064"},
      {"n[1,]", "\"\" must be a whole number or a range of them, as in 7 or 001-064"},
      {"n[1-9999999999999999999]",
       "\"1-9999999999999999999\" must be a whole number or a range of them, as in 7 or 001-064"},
      {"n[1", "\"n[1\" must have one \"[\" and one \"]\" after it, as in n[001-064]"},
      {"n1]", "\"n1]\" must have one \"[\" and one \"]\" after it, as in n[001-064]"},
      {"n]1[", "\"n]1[\" must have one \"[\" and one \"]\" after it, as in n[001-064]"},
      {"n[1]m[2]", "\"n[1]m[2]\" must have one \"[\" and one \"]\" after it, as in n[001-064]"},
      {"n[[1]]", "\"n[[1]]\" must have one \"[\" and one \"]\" after it, as in n[001-064]"},
      {"a,b,a", "\"a\" is there twice"},
      {"n[1-5],n[5-9]", "\"n5\" is there twice"},
      {"n[1-999999999999999999]", "lists more than the 65536 names that there may be"},
  }));
  CAPTURE(text);
  CHECK(ParseNameList(text).status() == absl::InvalidArgumentError(why));
}

TEST_CASE("names are written as few ranges, whatever their order") {
  const auto [names, text] = GENERATE(table<Names, std::string>({
      {{"alpha"}, "alpha"},
      {{"n1", "n10", "n2", "n9"}, "n[1-2,9-10]"},
      {{"n09", "n10", "n11", "n9", "n010"}, "n[9,09-10,010,11]"},
      {{"n099", "n100", "n101"}, "n[099-101]"},
      {{"ip-10-0-3-17.ec2.internal", "ip-10-0-3-18.ec2.internal"}, "ip-10-0-3-[17-18].ec2.internal"},
      {{"gpu.rack1", "gpu.rack2", "cpu"}, "cpu,gpu.rack[1-2]"},
      {{"n", "n1"}, "n,n1"},
      {{"n12345678901234567890", "n12345678901234567891"}, "n12345678901234567890,n12345678901234567891"},
  }));
  CHECK(WriteNameList(names) == text);
}

TEST_CASE("any names are read as they were written") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::set<std::string> names;
  for (size_t i = 1 + random() % 40; i > 0; --i) {
    std::string name;
    for (size_t part = 1 + random() % 4; part > 0; --part) {
      static const char* const kParts[] = {"n", "-", ".", "0", "00", "1", "9", "gpu", "_"};
      name += kParts[random() % std::size(kParts)];
      if (random() % 2 == 0) absl::StrAppend(&name, random() % 30);
    }
    names.insert(name);
  }
  const std::string text = WriteNameList({names.begin(), names.end()});
  CAPTURE(text);
  absl::StatusOr<Names> parsed = ParseNameList(text);
  REQUIRE(parsed.status().ToString() == "OK");
  std::sort(parsed->begin(), parsed->end());
  CHECK(*parsed == Names(names.begin(), names.end()));
}

}  // namespace
}  // namespace medley
