#pragma once
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "runtime/engine/exec/step_executor.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What a rank tells while it trains. Called on the training thread; unset ones are skipped.
struct TrainerReports {
  std::function<void(int64_t step, const StepOutcome&)> step;
  std::function<void(int64_t step, double loss)> validation;
  std::function<void(int64_t step, const std::string& directory)> checkpoint;  // it is complete
  // It could not be written, and whose fault it was; training goes on.
  std::function<void(int64_t step, const std::string& reason)> checkpoint_failed;
  std::function<void(const std::string& text)> warning;
};

struct TrainerOptions {
  TrainingSpec spec;
  RunIdentity identity;    // data_fingerprint: of this rank's data, empty if it reads none
  int64_t done_steps = 0;  // training begins with the step after these
  // After the last step a checkpoint that cannot be written is tried again until so much later, with pauses
  // that double.
  absl::Duration last_save_limit = absl::Hours(1);
  absl::Duration first_pause = absl::Seconds(1), longest_pause = absl::Seconds(30);
};

struct TrainingEnd {
  // Ended before the job's last step, with a checkpoint of this one, as was wished.
  std::optional<int64_t> stopped_at_step;
};

// Trains from the step after done_steps to the job's last: steps, validations and checkpoints as the job
// says. All ranks of a plan call it together. When a rank wishes to finish (StepExecutor::Options), all save
// the step that they are at and end; of a job without checkpoints the wish is passed over with a warning.
//
// A checkpoint that cannot be written fails nothing: it is reported, and tried again after a tenth of the
// steps between two checkpoints, at least one; or at once when somebody begins to wish to finish.
//
// Returns the first failure, with the step. Of the last checkpoint: why it could not be written, when
// last_save_limit is over or somebody wishes to finish.
absl::StatusOr<TrainingEnd> Train(const TrainerOptions& options, ModelShard& shard, StepExecutor& executor,
                                  const TrainerReports& reports);

}  // namespace medley
