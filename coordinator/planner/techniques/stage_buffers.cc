#include "coordinator/planner/techniques/stage_buffers.h"

namespace medley {

// Its numbers depend on nothing but the stage, so a small plan tells.
BufferCounts CompileStage(const PipelineStage& stage) {
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
  plan.units[own].activations_home = stage.activations_home;
  if (!stage.first) plan.units[own - 1].activations = stage.before;
  BufferCounts buffers = CompileStep(plan, own, shape, Purpose::kTrain).buffers;
  buffers.activations = stage.activations;
  return buffers;
}

int SettledMicroBatches(const PipelineStage& stage) { return 2 * stage.from_end + 6; }

BufferCounts WithMore(const BufferCounts& settled, const BufferCounts& next, int more) {
  BufferCounts buffers = settled;
  const auto add = [&](int& count, int after_one) { count += more * (after_one - count); };
  for (size_t chunk = 0; chunk < buffers.stash.size(); ++chunk) {
    add(buffers.stash[chunk], next.stash[chunk]);
    add(buffers.leaving_stash[chunk], next.leaving_stash[chunk]);
    add(buffers.deferred[chunk], next.deferred[chunk]);
    add(buffers.stash_home[chunk], next.stash_home[chunk]);
  }
  add(buffers.recomputed, next.recomputed);
  add(buffers.stream_gradient, next.stream_gradient);
  add(buffers.input, next.input);
  add(buffers.output, next.output);
  add(buffers.input_gradient, next.input_gradient);
  add(buffers.output_gradient, next.output_gradient);
  return buffers;
}

BufferCounts StageBuffers::Of(PipelineStage stage) {
  const int more = stage.micro_batches - SettledMicroBatches(stage);
  if (more <= 0) return Compiled(stage);
  stage.micro_batches = SettledMicroBatches(stage);
  const BufferCounts settled = Compiled(stage);
  ++stage.micro_batches;
  return WithMore(settled, Compiled(stage), more);
}

const BufferCounts& StageBuffers::Compiled(const PipelineStage& stage) {
  const auto [entry, inserted] = compiled_.try_emplace(stage);
  if (inserted) entry->second = CompileStage(stage);
  return entry->second;
}

}  // namespace medley
