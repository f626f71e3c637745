#include "runtime/ir/plan/part_of_plan.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

// Routes over so many units, each of which has a device of its own.
Plan PlanOf(int units, const std::vector<std::vector<int>>& routes) {
  Plan plan;
  for (int u = 0; u < units; ++u) plan.units.push_back({.devices = {"n/" + std::to_string(u)}});
  for (const std::vector<int>& of : routes) {
    Route& route = plan.routes.emplace_back();
    for (const int u : of) route.units.push_back(u);
  }
  return plan;
}

TEST_CASE("routes meet that share a unit, directly or by way of others") {
  using Sets = std::vector<std::vector<int>>;
  CHECK(RoutesThatMeet(PlanOf(4, {{0, 1}, {2, 3}})) == Sets{{0}, {1}});
  CHECK(RoutesThatMeet(PlanOf(3, {{0, 1}, {2, 1}})) == Sets{{0, 1}});
  // Each end of the chain meets the other by way of those in between, of which the last comes first.
  CHECK(RoutesThatMeet(PlanOf(8, {{0, 4}, {2, 5}, {7}, {1, 5}, {1, 4}, {6, 3}})) ==
        Sets{{0, 1, 3, 4}, {2}, {5}});
  CHECK(RoutesThatMeet(PlanOf(2, {{0, 1, 0}})) == Sets{{0}});
}

TEST_CASE("a part of a plan has the units of its routes, numbered as these come to them") {
  const Plan plan = PlanOf(6, {{5, 1}, {0, 2}, {4, 1}});
  CHECK(UnitsOf(plan, {0, 2}) == std::vector<UnitId>{5, 1, 4});
  CHECK(UnitsOf(plan, {2, 0}) == std::vector<UnitId>{4, 1, 5});
  const Plan part = PartOfPlan(plan, {0, 2});
  REQUIRE(part.routes.size() == 2);
  CHECK(part.routes[0].units == std::vector<UnitId>{0, 1});
  CHECK(part.routes[1].units == std::vector<UnitId>{2, 1});
  REQUIRE(part.units.size() == 3);
  CHECK(part.units[2].devices[0] == "n/4");
}

}  // namespace
}  // namespace medley
