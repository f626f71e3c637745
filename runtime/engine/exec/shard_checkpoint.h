#pragma once
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/engine/checkpoint/run_owner.h"
#include "runtime/engine/exec/step_executor.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/job/training_spec.h"

// Between a shard in device memory and checkpoints on disk (runtime/engine/checkpoint), which know nothing of
// plans.
namespace medley {

// Which run a checkpoint is of, beyond what the job's spec says. The same on all ranks.
struct RunIdentity {
  RunOwner owner;                // empty `run`: the folder is nobody's, and nothing is compared
  std::string spec_fingerprint;  // empty: not known
  std::string data_fingerprint;  // likewise
};

struct SavedCheckpoint {
  std::string directory;
  // Not OK: there is no checkpoint, and what this try had written is removed; the first rank that could not
  // write its part, and why. The same on all ranks.
  absl::Status written;
  absl::Status tidied;  // of removing old ones, on rank 0; the new one is complete whatever it says
};

// Writes what `step` left: each rank its SavedSegments, for which others give it their parts (SegmentGather);
// then, once all are on disk, rank 0 the manifest, and it removes what the job's keep rule does not keep. All
// ranks call it together; it takes as long as the slowest writer. `steps`: what the newest steps showed, ascending;
// the manifest has the last kMostStepRecords.
//
// Errors, all of which end the training: Aborted, the folder is another run's or a later launch's
// ("superseded by launch 7"), and nothing was written or removed there; others: of the device or the
// transport. A disk that is full or fails is no error.
absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const TrainingSpec& spec, const RunIdentity& identity,
                                               int64_t step, ModelShard& shard, StepExecutor& executor,
                                               absl::Span<const StepRecord> steps = {});

// Loads parameters of what `shard` holds of every segment, and moments of what it owns, with one part of one tensor
// on the host at a time. After an error what it holds is not defined.
//   FailedPrecondition   the checkpoint is of another model, data order or batch; the message names the
//                        field.
//   DataLoss             a file of it is missing or damaged; the message names the checkpoint and the file.
//   Otherwise            see ReadSegment.
absl::Status LoadCheckpoint(const CheckpointManifest& manifest, const TrainingSpec& spec, ModelShard& shard);

// Loads the parameters of what `shard` holds of every segment from the job's Hugging Face directory, a tensor
// at a time; moments start at zero.
absl::Status LoadHuggingFace(const std::string& directory, ModelShard& shard);

}  // namespace medley
