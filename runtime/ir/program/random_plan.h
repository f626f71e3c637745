#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/random_shares.h"
#include "runtime/ir/plan/plan.h"

// Valid plans for tests, all from a seed, with schedules of every name and with listed orders.
namespace medley {

struct PlannedShape {
  TrainingShape shape;
  Plan plan;
};

// One to four routes of one to five units each, every unit numbered at random; one to six layers.
PlannedShape RandomPlan(uint64_t seed);

// Units of one to three devices, with even or uneven shares, half of them in sequence parallelism and some of the others with parts, and of one
// to three ranges; one to three routes, which choose among the units that hold the same blocks.
PlannedShape RandomWidePlan(uint64_t seed);

// Adds to an empty plan up to `units` units, with nothing but the ranges of blocks that they hold, and one to
// three routes, with nothing but the units that they visit, one for each of `ranges`. One or two units may
// hold a range, and routes choose between them; none holds two ranges side by side. Two units or more, if
// there are two ranges or more.
void AddRandomUnits(Plan& plan, const std::vector<IndexRange>& ranges, int units, std::mt19937_64& random);

// Has some of the units of several devices that are not in sequence parallelism cut micro-batches into two to four parts, of whole
// sequences or not.
void CutIntoPartsAtRandom(Plan& plan, uint64_t seed);

// Has some of the units that recompute do so of some of their layers alone.
void RecomputeFewerLayers(Plan& plan, const ModelConfig& model, uint64_t seed);

// Has the layers of some of the units live in host memory, with a number of windows that they may have.
void MoveLayersToHost(Plan& plan, const ModelConfig& model, uint64_t seed);

// Shards the optimizer, and has all layers live with their holders. False, and nothing is changed: of such a plan
// they cannot.
bool MoveLayersToPeers(Plan& plan, const ModelConfig& model, uint64_t seed);

// Has the activations of some of the units live in host memory, of all of their layers or of some.
void MoveActivationsToHost(Plan& plan, const ModelConfig& model, uint64_t seed);

// Shards the optimizer's state of `plan` by weights at random, some of them 0; the plan stays valid.
void ShardOptimizer(Plan& plan, const ModelConfig& model, uint64_t seed);

}  // namespace medley
