#include "runtime/ir/program/memory.h"

#include <catch2/catch.hpp>

#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

const TrainingShape kShape = {
    .model = {.layers = 3, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8},
    .sequence = 4,
    .global_batch_sequences = 8};

TEST_CASE("a whole model holds sixteen bytes of state for each parameter") {
  const RankMemory memory = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, {.stash = {1}});
  const int64_t parameters = ModelElements(kShape.model);
  CHECK(memory.parameters == Bytes{4 * parameters});
  CHECK(memory.gradients == Bytes{4 * parameters});
  CHECK(memory.optimizer == Bytes{8 * parameters});
  CHECK(memory.boundaries == Bytes{0});
  CHECK(memory.total() > Bytes{16 * parameters});
}

TEST_CASE("activations grow with the micro-batches in flight, boundaries with their buffers") {
  const RankMemory one =
      MemoryOf(kShape.model, kShape.sequence, {{1, 3}}, 2, {.stash = {1}, .input = 2, .output = 2});
  const RankMemory three =
      MemoryOf(kShape.model, kShape.sequence, {{1, 3}}, 2, {.stash = {3}, .input = 4, .output = 2});
  CHECK(three.activations == 3 * one.activations);
  CHECK(three.boundaries.value * 4 == one.boundaries.value * 6);
  // Four buffers of 2 windows of 4 tokens of 8 floats.
  CHECK(one.boundaries == Bytes{4 * int64_t{4} * 2 * 4 * 8});
  CHECK(three.parameters == one.parameters);
}

TEST_CASE("the stages of a route hold the model once, but for the tied embedding", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    const ModelConfig& model = planned.shape.model;
    for (const Route& route : planned.plan.routes) {
      Bytes parameters, activations;
      for (const int u : route.units) {
        const RankMemory memory =
            MemoryOf(model, planned.shape.sequence, planned.plan.units[u].chunks, 1, {.stash = {1}});
        parameters += memory.parameters;
        activations += memory.activations;
      }
      const int64_t copies = route.units.size() > 1 ? 1 : 0;
      CHECK(parameters == Bytes{4 * (ModelElements(model) + copies * SegmentElements(model, kTiedSegment))});
      CHECK(activations ==
            MemoryOf(model, planned.shape.sequence, {{0, model.blocks()}}, 1, {.stash = {1}}).activations);
    }
  }
}

}  // namespace
}  // namespace medley
