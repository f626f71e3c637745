#pragma once
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "runtime/exec/unit_executor.h"
#include "runtime/job/training_spec.h"
#include "runtime/model/model_shard.h"

namespace medley {

// What a unit tells while it trains. Called on the training thread; unset ones are skipped.
struct TrainerReports {
  std::function<void(int64_t step, const StepOutcome&)> step;
  std::function<void(int64_t step, double loss)> validation;
  std::function<void(int64_t step, const std::string& directory)> checkpoint;  // it is complete
  std::function<void(const std::string& text)> warning;
};

// Trains from the step after `done_steps` to the job's last: steps, validations and checkpoints as the job says. All units of
// a plan call it together. Returns the first failure, with the step.
absl::Status Train(const TrainingSpec& spec, int64_t done_steps, ModelShard& shard, UnitExecutor& executor,
                   const std::vector<int>& owned_segments, const TrainerReports& reports);

}  // namespace medley
