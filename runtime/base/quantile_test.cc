#include "runtime/base/quantile.h"

#include <catch2/catch.hpp>
#include <limits>

namespace medley {
namespace {

TEST_CASE("a quantile lies straight between its neighbours") {
  const std::vector<double> ascending = {1, 2, 4, 8, 16};
  CHECK(Quantile(ascending, 0) == 1);
  CHECK(Quantile(ascending, 0.5) == 4);
  CHECK(Quantile(ascending, 0.625) == 6);
  CHECK(Quantile(ascending, 1) == 16);
  CHECK(Quantile({3}, 0.9) == 3);
}

TEST_CASE("a median is the value in the middle, or the mean of the two there") {
  CHECK(Median({5}) == 5);
  CHECK(Median({9, 1, 2}) == 2);
  CHECK(Median({8, 1, 4, 2}) == 3);
  CHECK(Median({1, 2, std::numeric_limits<double>::infinity()}) == 2);
}

}  // namespace
}  // namespace medley
