#pragma once
#include <cstdint>

#include "runtime/ir/plan/plan.h"

namespace medley {

// Makes a valid plan's schedule kListed, with orders that the passes allow, all from a seed: any pass that is
// ready at any moment, backwards whole or in two, micro-batches in or out of their order; few of them under
// way or many; with paces of all units, of some or of none.
void ListRandomOrders(Plan& plan, uint64_t seed);

}  // namespace medley
