#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/exec/unit_executor.h"
#include "runtime/job/training_spec.h"
#include "runtime/model/model_shard.h"

// Between a shard in device memory and checkpoints on disk (runtime/checkpoint), which know nothing of plans.
namespace medley {

// Writes what `step` left: each unit the segments it owns; then, once all are on disk, unit 0 the manifest, and it removes
// what the job's keep rule does not keep. All units call it together.
// If one unit fails, all return an error and there is no manifest; the message of the one that failed has the cause.
struct SavedCheckpoint {
  std::string directory;
  absl::Status tidied;  // of removing old ones, on unit 0; the new one is complete whatever it says
};
absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const TrainingSpec& spec, int64_t step, ModelShard& shard,
                                           UnitExecutor& executor, const std::vector<int>& owned_segments);

// Loads parameters and moments of every segment that `shard` holds.
// FailedPrecondition: the checkpoint is of another model, data order or batch, naming the field. DataLoss, ...: see ReadSegment.
absl::Status LoadCheckpoint(const CheckpointManifest& manifest, const TrainingSpec& spec, ModelShard& shard);

// Loads the parameters of every held segment from the job's Hugging Face directory; moments start at zero.
absl::Status LoadHuggingFace(const std::string& directory, ModelShard& shard);

}  // namespace medley
