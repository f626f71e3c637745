#include "coordinator/planner/stage_buffers.h"

namespace medley {

const BufferCounts& StageBuffers::Of(const BufferedStage& stage) {
  const std::array<int, 8> key = {static_cast<int>(stage.schedule),
                                  stage.first ? 1 : 0,
                                  stage.from_end,
                                  stage.micro_batches,
                                  static_cast<int>(stage.activations),
                                  static_cast<int>(stage.before),
                                  static_cast<int>(stage.recompute),
                                  stage.windows};
  const auto [known, inserted] = known_.try_emplace(key);
  BufferCounts& buffers = known->second;
  if (!inserted) return buffers;
  const int stages = stage.first ? stage.from_end : stage.from_end + 1;
  const int layers = 1 + stage.windows;  // of each stage
  TrainingShape shape{.model = {.layers = layers * stages, .heads = 1}, .sequence = 1};
  Plan plan{.schedule = stage.schedule};
  plan.routes.push_back({.micro_batches = stage.micro_batches, .micro_batch_sequences = 1});
  for (int s = 0; s < stages; ++s) {
    const BlockId first = s == 0 ? 0 : s * layers + 1;
    plan.units.push_back({.devices = {""},
                          .chunks = {{first, s == stages - 1 ? shape.model.blocks() : (s + 1) * layers + 1}},
                          .activations = stage.activations,
                          .recompute = stage.recompute});
    plan.routes[0].units.push_back(s);
  }
  const int own = stages - stage.from_end;
  plan.units[own].window_layers = stage.windows;
  if (!stage.first) plan.units[own - 1].activations = stage.before;
  buffers = CompileStep(plan, own, shape, Purpose::kTrain).buffers;
  buffers.activations = stage.activations;
  return buffers;
}

}  // namespace medley
