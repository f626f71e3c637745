#include "coordinator/planner/classes/master.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("the master finds how many routes of each shape do the most") {
  // Of two classes with 4 and 6 devices: a shape of one of each, and one of two of the second.
  const std::vector<MasterColumn> columns = {{{1, 1}, 3}, {{0, 2}, 2}};
  const MasterRelaxation relaxed = SolveRelaxed(columns, {4, 6}, {0, 10});
  CHECK(relaxed.value == Approx(14));
  CHECK(relaxed.amounts[0] == Approx(4));
  CHECK(relaxed.prices[0] == Approx(2));
  CHECK(relaxed.prices[1] == Approx(1));
  CHECK(SolveWhole(columns, {4, 6}, {0, 10}, 14, 100) == std::vector<int>{4, 1});
  CHECK(SolveWhole(columns, {4, 6}, {0, 10}, 15, 100).empty());
  CHECK(SolveWhole(columns, {4, 6}, {0, 4}, 14, 100).empty());
}

}  // namespace
}  // namespace medley
