#pragma once
#include <cstdint>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// A cluster for tests, from a seed: two or three kinds of unlike devices on hosts of two or four, each measured alone
// and with even shares, links fast within hosts and slower between them, times and messages comparable.
PlanningProblem ManyDevices(uint64_t seed, int devices);

}  // namespace medley
