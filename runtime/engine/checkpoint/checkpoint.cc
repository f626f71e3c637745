#include "runtime/engine/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/file_error.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return FileError(error.value(), "list", directory);
  return names;
}

using DirectoryByStep = std::map<int64_t, std::string, std::greater<>>;  // highest step first

absl::StatusOr<DirectoryByStep> Checkpoints(const std::string& root) {
  DirectoryByStep found;
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(root);
  if (absl::IsNotFound(names.status())) return found;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (const std::optional<int64_t> step = StepOfDirectory(name))
      found[*step] = absl::StrCat(root, "/", name);
  }
  return found;
}

absl::Status VerifyFiles(const CheckpointManifest& manifest, Verification verification) {
  for (const FileRecord& file : manifest.files) {
    RETURN_IF_ERROR(VerifyFile(manifest, file, verification));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointManifest> ReadComplete(const std::string& directory, Verification verification) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(directory));
  RETURN_IF_ERROR(VerifyFiles(manifest, verification));
  return manifest;
}

// Whether what came of reading a checkpoint says that it is whole or that it is not. Otherwise it could not be looked at: its
// disk or server fails, files or memory have run out, it may not be read.
bool IsKnown(const absl::Status& read) {
  return read.ok() || absl::IsNotFound(read) || absl::IsDataLoss(read) || absl::IsFailedPrecondition(read) ||
         absl::IsInvalidArgument(read);
}

absl::Status RemovePartialFiles(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory));
  for (const std::string& name : names) {
    if (!absl::StrContains(name, kPartialMarker)) continue;
    const std::string path = absl::StrCat(directory, "/", name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return FileError(errno, "remove", path);
  }
  return absl::OkStatus();
}

absl::Status RemoveCheckpoint(const std::string& directory) {
  // The manifest goes first, durably: a removal that is cut short leaves an incomplete checkpoint, not a
  // damaged one.
  const std::string manifest = absl::StrCat(directory, "/", kManifestName);
  if (unlink(manifest.c_str()) == 0) {
    RETURN_IF_ERROR(SyncDirectory(directory));
  } else if (errno != ENOENT) {
    return FileError(errno, "remove", manifest);
  }
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  if (error) return FileError(error.value(), "remove", directory);
  return absl::OkStatus();
}

// That `root` holds what is not `own`, for a user who wanted to train there. `newest` is its newest
// checkpoint's directory.
absl::Status Foreign(const std::string& root, const std::string& job, const std::string& newest) {
  const std::optional<int64_t> step = StepOfDirectory(newest);
  const std::string whose =
      job.empty() ? "of an unknown run" : absl::StrCat("of another run (job ", job, ")");
  if (!step.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint.directory: ", root, " is the folder ",
                                                      whose, "; choose another directory, or remove it"));
  }
  if (!ReadManifest(newest).ok()) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint.directory: ", root,
                                                      " holds parts of checkpoints ", whose,
                                                      "; choose another directory, or remove it"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint.directory: ", root, " holds checkpoints ",
      job.empty() ? absl::StrCat("of an unknown run (step ", *step, ")")
                  : absl::StrCat("of another run (job ", job, ", step ", *step, ")"),
      "; choose another directory, remove it, or continue it with checkpoint.resume_from: ", newest));
}

}  // namespace

absl::Status ClaimFolder(const std::string& root, const RunOwner& own, const std::string& continued) {
  if (own.run.empty()) return absl::OkStatus();
  const absl::StatusOr<std::optional<RunOwner>> owner = ReadRunOwner(root);
  if (absl::IsDataLoss(owner.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint.directory: whose it is cannot be read (", owner.status().message(),
                     "); choose another directory or, if its checkpoints may be lost, remove it"));
  }
  RETURN_IF_ERROR(owner.status());
  if (owner->has_value() && (*owner)->run == own.run) {
    const absl::Status newest = CheckRunOwner(root, own);
    if (absl::IsAborted(newest)) return absl::FailedPreconditionError(newest.message());
    RETURN_IF_ERROR(newest);
    return **owner == own ? absl::OkStatus() : WriteRunOwner(root, own);
  }
  ASSIGN_OR_RETURN(const DirectoryByStep checkpoints, Checkpoints(root));
  const std::string newest = checkpoints.empty() ? "" : checkpoints.begin()->second;
  // The newest that is complete says whose they are; what is incomplete says nothing.
  std::string job = owner->has_value() ? (*owner)->job : "", complete;
  bool own_checkpoint = false;
  for (const auto& [step, directory] : checkpoints) {
    const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(directory);
    if (!manifest.ok()) continue;
    if (job.empty()) job = manifest->job;
    own_checkpoint = manifest->run == own.run;
    complete = directory;
    break;
  }
  std::error_code ignored;
  const bool taken_over =
      !complete.empty() && !continued.empty() && std::filesystem::equivalent(continued, complete, ignored);
  const bool free = !owner->has_value() && (checkpoints.empty() || own_checkpoint);
  if (!free && !taken_over) return Foreign(root, job, complete.empty() ? newest : complete);
  return WriteRunOwner(root, own);
}

absl::Status CommitManifest(const std::string& root, const CheckpointManifest& manifest) {
  RETURN_IF_ERROR(CheckManifest(manifest));
  RETURN_IF_ERROR(CheckRunOwner(root, {.run = manifest.run, .job = manifest.job, .launch = manifest.launch}));
  CheckpointManifest placed = manifest;
  placed.directory = CheckpointDirectory(root, manifest.step);
  if (const absl::Status status = VerifyFiles(placed, Verification::kSizes); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint is incomplete: ", status.message()));
  }
  RETURN_IF_ERROR(RemovePartialFiles(placed.directory));
  return WriteFileAtomically(absl::StrCat(placed.directory, "/", kManifestName), ManifestText(placed));
}

absl::StatusOr<bool> IsOfRun(const CheckpointManifest& manifest, const std::string& root,
                             const std::string& run) {
  if (!manifest.run.empty()) return manifest.run == run;
  ASSIGN_OR_RETURN(const std::optional<RunOwner> owner, ReadRunOwner(root));
  return owner.has_value() && owner->run == run;
}

absl::StatusOr<CheckpointSearch> LatestCheckpoint(const std::string& root, Verification verification,
                                                  int64_t highest_step, const std::string& run,
                                                  const std::set<std::string>& without) {
  ASSIGN_OR_RETURN(const DirectoryByStep checkpoints, Checkpoints(root));
  CheckpointSearch search;
  for (const auto& [step, directory] : checkpoints) {
    if (step > highest_step || without.contains(directory)) continue;
    absl::StatusOr<CheckpointManifest> manifest = ReadComplete(directory, Verification::kSizes);
    if (manifest.ok() && !run.empty()) {
      const absl::StatusOr<bool> own = IsOfRun(*manifest, root, run);
      if (!own.ok()) {
        manifest = own.status();
      } else if (!*own) {
        manifest =
            absl::FailedPreconditionError(absl::StrCat("it is of another run (job ", manifest->job, ")"));
      }
    }
    if (manifest.ok() && verification == Verification::kChecksums) {
      if (const absl::Status verified = VerifyFiles(*manifest, verification); !verified.ok())
        manifest = verified;
    }
    if (manifest.ok()) {
      search.latest = *std::move(manifest);
      break;
    }
    // A file server that is away for a moment is no reason to go back to an earlier one.
    if (!IsKnown(manifest.status())) return manifest.status();
    search.skipped.push_back({directory, manifest.status()});
  }
  return search;
}

absl::StatusOr<std::vector<std::string>> RemoveOldCheckpoints(const std::string& root, int keep,
                                                              int64_t newest_step, const RunOwner& own) {
  if (keep < 1) return absl::InvalidArgumentError(absl::StrCat("keep is ", keep, ", must be at least 1"));
  ASSIGN_OR_RETURN(const DirectoryByStep checkpoints, Checkpoints(root));
  std::vector<std::string> stale;
  int complete = 0;
  for (const auto& [step, directory] : checkpoints) {
    if (step > newest_step) continue;
    const absl::Status read = ReadComplete(directory, Verification::kSizes).status();
    if (!IsKnown(read)) continue;  // it may be whole
    if (read.ok() && complete < keep) {
      ++complete;
    } else if (complete > 0) {
      stale.push_back(directory);
    }
  }
  std::reverse(stale.begin(), stale.end());
  for (const std::string& directory : stale) {
    // Before each, because removing many large files takes long enough for a later launch to begin.
    RETURN_IF_ERROR(CheckRunOwner(root, own));
    RETURN_IF_ERROR(RemoveCheckpoint(directory));
    Progress::OfProcess().Add();
  }
  return stale;
}

absl::Status RemoveIncomplete(const std::string& root, int64_t step, const RunOwner& own) {
  RETURN_IF_ERROR(CheckRunOwner(root, own));
  const std::string directory = CheckpointDirectory(root, step);
  std::error_code error;
  if (ReadComplete(directory, Verification::kSizes).ok() || !std::filesystem::exists(directory, error))
    return absl::OkStatus();
  return RemoveCheckpoint(directory);
}

absl::Status TryFolder(const std::string& root) {
  RETURN_IF_ERROR(CreateDirectories(root));
  const std::string path = absl::StrCat(root, "/.tried-by-", getpid());
  RETURN_IF_ERROR(
      WriteFileAtomically(path, "Medley tried whether it can write here; this file may be removed.\n"));
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError(errno, "remove", path);
}

}  // namespace medley
