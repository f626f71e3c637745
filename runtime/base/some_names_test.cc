#include "runtime/base/some_names.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

namespace medley {
namespace {

TEST_CASE("names are listed, and of many the first ones with how many more there are") {
  CHECK(SomeNames(std::vector<std::string>{}).empty());
  CHECK(SomeNames(std::vector<std::string>{"a"}, 2) == "a");
  CHECK(SomeNames(std::vector<std::string>{"b", "a"}, 2) == "b, a");
  CHECK(SomeNames(std::set<std::string>{"d", "c", "b", "a"}, 2) == "a, b and 2 more");
}

}  // namespace
}  // namespace medley
