#pragma once
#include <cstdint>

#include "runtime/ir/program/timed_pipeline.h"

// Pipelines of unlike stages for tests, all from a seed.
namespace medley {

// One to three routes over two to five units, each of one to nine stages; a route may pass a unit several
// times and several routes may pass one. Times up to 20 times apart, some messages free, and weights'
// gradients that keep more, less or as much as what comes before.
TimedPipeline RandomPipeline(uint64_t seed);

// One route that passes each of two to eight units once.
TimedPipeline RandomOncePassed(uint64_t seed);

}  // namespace medley
