#pragma once
#include <cstddef>
#include <string>

#include "proto/medley/v1/plan.pb.h"

namespace medley {

// What the memory of each device in use is made of, as a table in the unit that suits the fullest: what is there for the whole step
// (weights, gradients, optimizer, sums of a unit's ranks), what is kept from forward to backward, what is on its way, windows of layers
// that live elsewhere, and as workspace all else up to the total, as scratch of ops, copies and what allocators lose. After the limit
// what lives in memory of the host, and what the host has of it for all of its devices. Without columns that say nothing of any device.
// Of many devices those that are alike are a line. `columns`: as of FormatTable. Empty: nothing is known.
std::string FormatMemory(const v1::PlanReport& report, size_t columns = 0);

}  // namespace medley
