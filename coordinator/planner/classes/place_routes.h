#pragma once
#include "coordinator/planner/classes/deal_micro_batches.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The plan whose routes, or bundles, are `routes`, on devices of the table's problem: units on one host each, neighbours of a
// route side by side where there is room, and hosts filled one after another. Routes for which no host has enough
// devices left (degrees that do not divide hosts evenly) are taken out of `routes`, and the plan is then empty.
Plan PlaceRoutes(const StageTable& table, std::vector<ShapedRoutes>& routes);

// The same routes, with stages side by side that hold the same blocks, so that their sums stay within hosts as far as can
// be. Empty: some have no place so, or no route has several stages.
Plan PlaceByBlocks(const StageTable& table, const std::vector<ShapedRoutes>& routes);

}  // namespace medley
