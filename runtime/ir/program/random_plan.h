#pragma once
#include <cstdint>

#include "runtime/ir/model/model_config.h"
#include "runtime/ir/plan/plan.h"

// Valid plans for tests, all from a seed, with schedules of every name and with listed orders.
namespace medley {

struct PlannedShape {
  TrainingShape shape;
  Plan plan;
};

// One to four routes of one to five units each, every unit numbered at random; one to six layers.
PlannedShape RandomPlan(uint64_t seed);

// Units of one to three devices, with even or uneven shares, and of one to three ranges; one to three routes,
// which choose among the units that hold the same blocks.
PlannedShape RandomWidePlan(uint64_t seed);

// Shards the optimizer's state of `plan` by weights at random, some of them 0; the plan stays valid.
void ShardOptimizer(Plan& plan, const ModelConfig& model, uint64_t seed);

}  // namespace medley
