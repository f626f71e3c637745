#pragma once
#include <vector>

#include "coordinator/planner/classes/price_shapes.h"

namespace medley {

// Shapes of routes that take no more than so many devices of each class, shortest periods first. Prices (ShapePricing) know
// nothing of how many devices there are, and where one route takes most of a class no price tells which of its stages
// are to be on what: every one of them would have the same. Here counts are what is searched: by how many stages
// of each kind there are behind one, the most layers that they hold with passes no longer than a limit. That is exact
// for a limit; the least limits with which the model is whole are taken, and of routes with one limit that on which
// a micro-batch is the shortest time on its way.
//
// `devices`: of each class. None: a route cannot be whole so, kinds have several degrees, there are many more devices than
// blocks, or too many counts to go through. Pure and deterministic.
std::vector<RouteShape> RoutesWithin(const ShapePricing& pricing, const std::vector<int>& devices);

}  // namespace medley
