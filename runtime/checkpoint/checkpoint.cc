#include "runtime/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/atomic_file.h"
#include "runtime/data/file_error.h"

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
    RETURN_IF_ERROR(OpenVerified(manifest, file, verification).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointManifest> ReadVerified(const std::string& directory, Verification verification) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(directory));
  RETURN_IF_ERROR(VerifyFiles(manifest, verification));
  return manifest;
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

}  // namespace

absl::Status CommitManifest(const std::string& root, const CheckpointManifest& manifest) {
  RETURN_IF_ERROR(CheckManifest(manifest));
  CheckpointManifest placed = manifest;
  placed.directory = CheckpointDirectory(root, manifest.step);
  if (const absl::Status status = VerifyFiles(placed, Verification::kSizes); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint is incomplete: ", status.message()));
  }
  RETURN_IF_ERROR(RemovePartialFiles(placed.directory));
  return WriteFileAtomically(absl::StrCat(placed.directory, "/", kManifestName), ManifestText(placed));
}

absl::StatusOr<CheckpointSearch> LatestCheckpoint(const std::string& root, Verification verification,
                                                  int64_t highest_step) {
  ASSIGN_OR_RETURN(const DirectoryByStep checkpoints, Checkpoints(root));
  CheckpointSearch search;
  for (const auto& [step, directory] : checkpoints) {
    if (step > highest_step) continue;
    absl::StatusOr<CheckpointManifest> manifest = ReadVerified(directory, verification);
    if (manifest.ok()) {
      search.latest = *std::move(manifest);
      break;
    }
    search.skipped.push_back({directory, manifest.status()});
  }
  return search;
}

absl::StatusOr<std::vector<std::string>> RemoveOldCheckpoints(const std::string& root, int keep) {
  if (keep < 1) return absl::InvalidArgumentError(absl::StrCat("keep is ", keep, ", must be at least 1"));
  ASSIGN_OR_RETURN(const DirectoryByStep checkpoints, Checkpoints(root));
  std::vector<std::string> stale;
  int complete = 0;
  for (const auto& [step, directory] : checkpoints) {
    const bool is_complete = ReadVerified(directory, Verification::kSizes).ok();
    if (is_complete && complete < keep) {
      ++complete;
    } else if (complete > 0) {
      stale.push_back(directory);
    }
  }
  std::reverse(stale.begin(), stale.end());
  for (const std::string& directory : stale) RETURN_IF_ERROR(RemoveCheckpoint(directory));
  return stale;
}

}  // namespace medley
