#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/engine/checkpoint/checkpoint_directory.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "runtime/engine/checkpoint/run_owner.h"
#include "runtime/engine/checkpoint/segment_file.h"

// The checkpoints of one job, each a directory under one root: CheckpointDirectory(root, step); and whose
// they are (run_owner.h).
//
// To write one: every process calls WriteSegment for the segments that are its to write; when all are done,
// one of them gathers the FileRecords and calls CommitManifest. Until then there is no checkpoint, whatever
// happens.
namespace medley {

// Makes the folder `root` the run's `own`, before it trains: creates it, and writes its owner file. Not an
// error if it is the run's already. One process of a launch calls it. With an empty own.run nothing is
// compared or written.
//
// `continued` is the checkpoint of another run that the run begins from, or empty. If that is the newest in
// `root`, then `own` takes the folder over; who trains on in it is superseded.
//
// Errors; nothing was changed:
//   FailedPrecondition   `root` is another run's, holds checkpoints of another or of no known run, or has an
//                        owner file that is damaged, and nothing is taken over; or a later launch has claimed
//                        it ("superseded by launch 7"). The message names the folder, the run's job and its
//                        newest step, and what can be done.
//   Otherwise            those of ReadRunOwner and WriteRunOwner.
absl::Status ClaimFolder(const std::string& root, const RunOwner& own, const std::string& continued = "");

// Makes the segments in CheckpointDirectory(root, manifest.step) a checkpoint; `manifest.directory` is not
// used. Blocks until it is durable. Removes what writers that died have left half-written there.
//
// Errors; the checkpoint stays incomplete:
//   InvalidArgument      see CheckManifest.
//   FailedPrecondition   a file is missing or has another size than its record; the message names it.
//   Aborted              manifest.run is given, and the folder is another run's or a later launch's
//                        (CheckRunOwner).
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

// The complete checkpoint of the highest step that is at most `highest_step`. Incomplete, damaged and foreign
// ones between it and `highest_step` are passed over and listed. With a `run`, so are those of other runs
// (FailedPrecondition); one that does not say its run is taken for the run's own only if the owner file says
// that the folder is. What is in `without`, directories, is passed over and not listed. A root that does not
// exist holds no checkpoint. Other names under `root` are ignored. Errors: the code of FileError if `root`
// cannot be listed, or one that would be the latest cannot be looked at now (Unavailable, ResourceExhausted,
// PermissionDenied), so that it is not known whether it is complete.
absl::StatusOr<CheckpointSearch> LatestCheckpoint(const std::string& root,
                                                  Verification verification = Verification::kChecksums,
                                                  int64_t highest_step = std::numeric_limits<int64_t>::max(),
                                                  const std::string& run = "",
                                                  const std::set<std::string>& without = {});

// Whether `manifest`, of a checkpoint in `root`, is of `run`: it says so, or says nothing and the owner file
// does. Errors: those of ReadRunOwner.
absl::StatusOr<bool> IsOfRun(const CheckpointManifest& manifest, const std::string& root,
                             const std::string& run);

// Of the checkpoints up to `newest_step`, which was just committed, removes the complete ones but the `keep` of the
// highest steps, and the incomplete ones of a lower step than the latest complete one. Complete is by sizes
// here, so with keep >= 2 there is one to go back to if the newest turns out damaged. Those of higher steps are
// left, and do not count: they may be being written, or be of a run that went on from an earlier step
// because they are damaged. So are those that cannot be looked at now, which may be whole. Returns
// the removed directories, lowest step first.
//
// Errors: InvalidArgument, keep < 1; Aborted, `own` is given and the folder is not its own any more
// (CheckRunOwner); otherwise the code of FileError, some may have been removed.
absl::StatusOr<std::vector<std::string>> RemoveOldCheckpoints(const std::string& root, int keep,
                                                              int64_t newest_step, const RunOwner& own = {});

// Removes what a try to write `step` that failed has left: the directory, unless it is complete, by sizes.
// Errors: as above.
absl::Status RemoveIncomplete(const std::string& root, int64_t step, const RunOwner& own = {});

// Whether checkpoints can be written under `root`: creates it, and writes, syncs and removes a small file
// there, under a name of this process's. Errors: those of AtomicFile and CreateDirectories.
absl::Status TryFolder(const std::string& root);

}  // namespace medley
