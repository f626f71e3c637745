#include "runtime/exec/trainer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/exec/shard_checkpoint.h"

namespace medley {

absl::Status Train(const TrainingSpec& spec, int64_t done_steps, ModelShard& shard, UnitExecutor& executor,
                   const std::vector<int>& owned_segments, const TrainerReports& reports) {
  for (int64_t step = done_steps + 1; step <= spec.steps; ++step) {
    ASSIGN_OR_RETURN(const StepOutcome outcome, executor.TrainStep(step));
    if (reports.step) reports.step(step, outcome);
    const bool last = step == spec.steps;
    if (spec.validate_every_steps > 0 && (last || step % spec.validate_every_steps == 0)) {
      absl::StatusOr<double> loss = executor.Evaluate();
      if (!loss.ok()) return Annotate(loss.status(), absl::StrFormat("validation after step %d", step));
      if (reports.validation) reports.validation(step, *loss);
    }
    if (!spec.checkpoint_directory.empty() && (last || step % spec.checkpoint_every_steps == 0)) {
      executor.activity()->Enter(absl::StrCat("checkpoint of step ", step));
      const absl::StatusOr<SavedCheckpoint> saved = SaveCheckpoint(spec, step, shard, executor, owned_segments);
      if (!saved.ok()) return Annotate(saved.status(), absl::StrFormat("checkpoint of step %d", step));
      if (reports.checkpoint) reports.checkpoint(step, saved->directory);
      if (!saved->tidied.ok() && reports.warning) {
        reports.warning(absl::StrCat("old checkpoints stay: ", saved->tidied.message()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
