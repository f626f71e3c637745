#include "coordinator/planner/classes/host_layers.h"

#include <catch2/catch.hpp>

#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

struct Copied {
  double fetched = 0, stored = 0;  // layers' parameters
};

// By the middle one of three stages of so many layers each.
Copied CopiedBy(int layers, int windows, int micro_batches) {
  TrainingShape shape{.model = {.layers = 3 * layers, .hidden = 8, .heads = 1, .feed_forward = 8},
                      .sequence = 1};
  shape.global_batch_sequences = micro_batches;
  Plan plan;
  Route& route = plan.routes.emplace_back(Route{{}, micro_batches, 1});
  for (int s = 0; s < 3; ++s) {
    const BlockId first = s == 0 ? 0 : s * layers + 1;
    plan.units.push_back(
        {.devices = {""}, .chunks = {{first, s == 2 ? shape.model.blocks() : (s + 1) * layers + 1}}});
    route.units.push_back(s);
  }
  plan.units[1].window_layers = windows;
  const double layer =
      4.0 * static_cast<double>(SegmentElements(shape.model, SegmentOfBlock(BlockOfLayer(0))));
  Copied copied;
  for (const Instruction& instruction : CompileStep(plan, 1, shape, Purpose::kTrain).instructions) {
    const double of_layers = static_cast<double>(instruction.bytes.value) / layer;
    if (instruction.kind == InstructionKind::kFetch) copied.fetched += of_layers;
    if (instruction.kind == InstructionKind::kStore) copied.stored += of_layers;
  }
  return copied;
}

TEST_CASE("each micro-batch copies as many layers as the step program does") {
  for (int layers = 3; layers <= 9; ++layers) {
    for (int windows = 2; windows < layers; ++windows) {
      INFO(layers << " layers, " << windows << " windows");
      const Copied many = CopiedBy(layers, windows, 12), more = CopiedBy(layers, windows, 13);
      const LayerCopies copies = CopiesOf(layers, windows, 1);
      CHECK(more.fetched - many.fetched == Approx(copies.forward_fetched + copies.backward_fetched));
      CHECK(more.stored - many.stored == Approx(copies.backward_stored));
      // Of those at the end some are in windows yet.
      CHECK(many.fetched <=
            12 * (copies.forward_fetched + copies.backward_fetched) + copies.end_fetched + 1e-6);
      CHECK(copies.end_fetched == 4 * layers);
      CHECK(copies.end_stored == 3 * layers);
    }
  }
}

TEST_CASE("windows of moments are whole where several layers are summed at once") {
  CHECK(OptimizerBytes({1000}, 0, {40}, false, 0.5).value == 500);
  CHECK(OptimizerBytes({1000}, 2, {40}, true, 0.5).value == 500);
  CHECK(OptimizerBytes({1000}, 2, {40}, false, 0.5).value == 420 + 160);
  CHECK(LayersAreSummedAlone({.layers = 4, .hidden = 1024, .heads = 16, .feed_forward = 4096}));
  CHECK(!LayersAreSummedAlone({.layers = 40, .hidden = 64, .heads = 4, .feed_forward = 256}));
}

}  // namespace
}  // namespace medley
