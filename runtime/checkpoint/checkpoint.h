#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/segment_file.h"

// The checkpoints of one job, each a directory under one root: CheckpointDirectory(root, step).
//
// To write one: every process calls WriteSegment for the segments that are its to write; when all are done,
// one of them gathers the FileRecords and calls CommitManifest. Until then there is no checkpoint, whatever
// happens.
namespace medley {

// Makes the segments in CheckpointDirectory(root, manifest.step) a checkpoint; `manifest.directory` is not
// used. Blocks until it is durable. Removes what writers that died have left half-written there.
//
// Errors; the checkpoint stays incomplete:
//   InvalidArgument      see CheckManifest.
//   FailedPrecondition   a file is missing or has another size than its record; the message names it.
//   Otherwise            those of AtomicFile.
absl::Status CommitManifest(const std::string& root, const CheckpointManifest& manifest);

struct SkippedCheckpoint {
  std::string directory;
  absl::Status reason;  // never OK
};
struct CheckpointSearch {
  std::optional<CheckpointManifest> latest;  // nothing: there is no complete one
  std::vector<SkippedCheckpoint> skipped;    // those of a later step, latest first
};

// The complete checkpoint of the highest step that is at most `highest_step`. Incomplete, damaged and foreign ones
// between it and `highest_step` are passed over and listed. A root that does not exist holds no checkpoint. Other names under `root` are
// ignored. Errors: the code of FileError if `root` cannot be listed.
absl::StatusOr<CheckpointSearch> LatestCheckpoint(const std::string& root,
                                                  Verification verification = Verification::kChecksums,
                                                  int64_t highest_step = std::numeric_limits<int64_t>::max());

// Removes complete checkpoints but the `keep` of the highest steps, and incomplete ones of a lower step than
// the latest complete one. Complete is by sizes here, so with keep >= 2 there is one to go back to if the
// newest turns out damaged. Incomplete ones of a higher step are left: they may be being written. Returns the
// removed directories, lowest step first.
//
// Errors: InvalidArgument, keep < 1; otherwise the code of FileError, some may have been removed.
absl::StatusOr<std::vector<std::string>> RemoveOldCheckpoints(const std::string& root, int keep);

}  // namespace medley
