#pragma once
#include <compare>
#include <map>

#include "runtime/base/dtype.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What the number of buffers of a stage with a layer depends on.
struct PipelineStage {
  Schedule schedule = Schedule::kOneForwardOneBackward;  // of kPlannedSchedules
  bool first = false;                                    // of its route
  int from_end = 1;                                      // 1: the last of its route
  int micro_batches = 1;
  Dtype activations = Dtype::kF32;
  Dtype before = Dtype::kF32;  // of the activations of the stage before
  Recompute recompute = Recompute::kNone;
  int windows = 0;  // of layers in host memory
  ActivationsHome activations_home = ActivationsHome::kDevice;

  friend auto operator<=>(const PipelineStage&, const PipelineStage&) = default;
};

// Under 1F1B what forwards keep goes to host memory only on stages further from the end than that: nearer it as much has to be on
// the device (StashTripsOf).
constexpr int kFewestFromEndToStore = 4;

// The buffers that the compiler gives it. Takes time by the micro-batches. Pure.
BufferCounts CompileStage(const PipelineStage& stage);

// From so many micro-batches on each further one takes as many buffers as the one before: none under 1F1B, a stash and
// what else waits under GPipe.
int SettledMicroBatches(const PipelineStage& stage);

// The buffers with `more` micro-batches than `settled` has, `next` being with one more.
BufferCounts WithMore(const BufferCounts& settled, const BufferCounts& next, int more);

// CompileStage of many stages, each compiled once and with no more micro-batches than tell what more of them take.
class StageBuffers {
 public:
  BufferCounts Of(PipelineStage stage);

 private:
  const BufferCounts& Compiled(const PipelineStage& stage);

  std::map<PipelineStage, BufferCounts> compiled_;
};

}  // namespace medley
