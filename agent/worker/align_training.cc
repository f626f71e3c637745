#include "agent/worker/align_training.h"

#include <memory>
#include <string>

#include "comm/loopback/loopback_fabric.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "runtime/engine/exec/step_executor.h"
#include "runtime/engine/shard/model_shard.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

Plan WholeModelOnOneDevice(const AlignJob& job) {
  const TrainingShape& shape = job.spec.shape;
  return {.units = {{.devices = {"align/device"}, .chunks = {{0, shape.model.blocks()}}}},
          .routes = {{.units = {0},
                      .micro_batches = shape.global_batch_sequences / job.micro_batch,
                      .micro_batch_sequences = job.micro_batch}}};
}

// The parameter whose value, gradient or moment `slice` begins in, or "".
std::string ParameterAt(const ParameterArena& arena, const Slice& slice) {
  for (const Part part : {Part::kParameter, Part::kGradient, Part::kFirstMoment, Part::kSecondMoment}) {
    const Slice whole = arena.Whole(part);
    if (whole.buffer != slice.buffer) continue;
    const int64_t element = (slice.offset_bytes - whole.offset_bytes) / 4;
    for (const PlacedParameter& placed : arena.layout().parameters) {
      if (placed.offset <= element && element < placed.offset + placed.spec.elements) return placed.spec.name;
    }
  }
  return "";
}

// Tells the recorder of a training for as long as it lasts.
class Recording {
 public:
  Recording(RecordingOps* recorder, const ParameterArena& arena) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    recorder_->SetParameterAt([&arena](const Slice& slice) { return ParameterAt(arena, slice); });
  }
  ~Recording() {
    if (recorder_ == nullptr) return;
    recorder_->EndSteps();
    recorder_->SetParameterAt(nullptr);
  }
  void BeginStep(int64_t step) {
    if (recorder_ != nullptr) recorder_->BeginStep(step);
  }

 private:
  RecordingOps* const recorder_;
};

}  // namespace

absl::Status TrainForAlignment(Device& device, const AlignJob& job, RecordingOps* recorder,
                               std::vector<double>& losses) {
  const TrainingSpec& spec = job.spec;
  const Plan plan = WholeModelOnOneDevice(job);
  ASSIGN_OR_RETURN(const std::unique_ptr<WindowSource> windows, OpenAlignWindows(job));
  const StepProgram program = CompileStep(plan, 0, spec.shape, Purpose::kTrain);
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelShard> shard,
                   ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, spec.precision)));
  RETURN_IF_ERROR(spec.hugging_face_directory.empty() ? shard->arena().Initialise(spec.seed)
                                                      : LoadHuggingFace(spec.hugging_face_directory, *shard));
  LoopbackFabric alone(1);
  const std::unique_ptr<Transport> transport = alone.Join(0);
  StepExecutor executor({.spec = spec, .plan = plan, .rank = 0}, *shard, *transport, *windows);
  Recording recording(recorder, shard->arena());
  for (int64_t step = 1; step <= job.steps; ++step) {
    recording.BeginStep(step);
    ASSIGN_OR_RETURN(const StepOutcome outcome, executor.TrainStep(step, step < job.steps));
    losses.push_back(outcome.loss);
  }
  return absl::OkStatus();
}

}  // namespace medley
