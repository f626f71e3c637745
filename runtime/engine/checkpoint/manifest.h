#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/engine/data/window_order.h"
#include "runtime/ir/job/loss_scale.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

// Written; 1, which lacks `run` to `data_fingerprint`, is read, too.
inline constexpr int kManifestVersion = 2;
inline constexpr char kManifestName[] = "manifest.json";

// One file of a checkpoint.
struct FileRecord {
  SegmentId segment = 0;
  std::string name;  // within the checkpoint's directory
  FileDigest digest;
  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// Where the data stands. What the next step reads follows from these and the training file alone.
struct DataPosition {
  int64_t steps = 0;  // consumed; the next step is this one, counting from 0
  DataOrder order = DataOrder::kSequential;
  uint64_t seed = 0;  // of kShuffled
  int sequence = 0;
  int global_batch_sequences = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// What a step showed. A checkpoint has those of the steps that led to it, so that a loss curve stays whole when
// those that should have been told of them were away, or died.
struct StepRecord {
  int64_t step = 0;  // from 1
  double loss = 0;   // mean over the step's tokens, nats; NaN: it was not finite
  double gradient_norm = 0;
  double learning_rate = 0;
  double seconds = 0;           // that it took
  double ended_at_seconds = 0;  // Unix seconds
  int64_t loss_scale = 1;       // that its gradients were computed with
  bool skipped = false;         // nothing was updated
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};
inline constexpr size_t kMostStepRecords = 256;  // about 50 KB of a manifest

// What a checkpoint is: a training state, and nothing of the plan it was reached under.
struct CheckpointManifest {
  std::string directory;                // where it lies; not stored
  std::string job;                      // the job's name
  std::string run;                      // the random id of the run that made it; empty: not known
  std::string spec;                     // fingerprint of the run's job spec; empty: not known
  uint64_t launch = 0;                  // of the run that made it; grows with every launch; 0: not known
  std::string data_fingerprint;         // of the run's token files (FileWindowSource); empty: not known
  int64_t step = 0;                     // optimizer steps done
  std::optional<LossScale> loss_scale;  // of the next step, where the loss is scaled
  ModelConfig model;
  DataPosition data;
  std::vector<FileRecord> files;  // one a segment, ascending
  std::vector<StepRecord> steps;  // the newest of its launch's, ascending, at most kMostStepRecords
  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

// "segment-00005.safetensors"
std::string SegmentFileName(SegmentId segment);

// The text of manifest.json, which ends in a checksum over itself. README.md describes it.
std::string ManifestText(const CheckpointManifest& manifest);

// The inverse of ManifestText, but for `directory`, which is left empty.
//
// Errors; the message names the member, its value and what is allowed:
//   DataLoss             not JSON, checksum wrong, or a member missing or out of its range.
//   FailedPrecondition   another format version.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

// Reads <directory>/manifest.json. Does not look at the other files: see OpenVerified.
//
// Errors, beside ParseManifest's: NotFound, there is none (so the checkpoint is incomplete); DataLoss, its
// step is not the directory's; otherwise the code of FileError. The message names the file.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory);

enum class Verification : uint8_t {
  kSizes,      // a look at each file's size: milliseconds
  kChecksums,  // a read of every byte: about as long as the disk takes
};

// Holds one file of a checkpoint against the manifest; reads it, if at all, by read(2), so that a file that
// shrinks meanwhile or cannot be read is an error like others.
// Errors, naming the file: NotFound, it is missing; DataLoss, its size or checksum is not the manifest's;
// otherwise the code of FileError (Unavailable: the disk fails).
absl::Status VerifyFile(const CheckpointManifest& manifest, const FileRecord& file,
                        Verification verification);

// The same with kChecksums; calls `visit(offset, bytes)` for each piece of the file, in order, before the
// whole is verified.
absl::Status ReadVerified(const CheckpointManifest& manifest, const FileRecord& file,
                          absl::FunctionRef<void(int64_t offset, absl::Span<const std::byte> bytes)> visit);

// InvalidArgument: the model's dimensions, the step, the data position or the list of files (one a segment of
// the model, ascending, under its own name) cannot be those of a checkpoint.
absl::Status CheckManifest(const CheckpointManifest& manifest);

}  // namespace medley
