#include "runtime/base/greatest_that.h"

#include <catch2/catch.hpp>
#include <limits>

namespace medley {
namespace {

TEST_CASE("the greatest number that may is found among all ranges, and the least without asking for it") {
  for (int least = -2; least <= 2; ++least) {
    for (int most = least; most <= least + 9; ++most) {
      for (int greatest = least; greatest <= most; ++greatest) {
        CAPTURE(least, most, greatest);
        const auto may = [&](int number) {
          CHECK(number > least);
          CHECK(number <= most);
          return number <= greatest;
        };
        CHECK(GreatestThat(least, most, may) == greatest);
      }
    }
  }
}

TEST_CASE("so it is of many, without overflow") {
  constexpr int kMost = std::numeric_limits<int>::max();
  int asked = 0;
  const auto may = [&](int number) { return ++asked > 0 && number <= kMost - 3; };
  CHECK(GreatestThat(1, kMost, may) == kMost - 3);
  CHECK(asked <= 32);
}

}  // namespace
}  // namespace medley
