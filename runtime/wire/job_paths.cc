#include "runtime/wire/job_paths.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

// With all links followed, as far as the path is there.
fs::path Real(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::path() : real;
}

bool LiesIn(const fs::path& path, const fs::path& directory) {
  if (path.empty() || directory.empty()) return false;  // one that cannot be told allows nothing
  const auto [rest, end] = std::mismatch(path.begin(), path.end(), directory.begin(), directory.end());
  return end == directory.end() || (end->empty() && std::next(end) == directory.end());
}

}  // namespace

std::vector<NamedPath> PathsOf(const v1::JobSpec& spec) {
  return {{"data.train", spec.data().train()},
          {"data.validation", spec.data().validation()},
          {"model.hugging_face", spec.model().hugging_face()},
          {"checkpoint.directory", spec.checkpoint().directory()},
          {"checkpoint.resume_from", spec.checkpoint().resume_from()},
          {"tensorboard", spec.tensorboard()}};
}

absl::Status CheckJobPaths(const v1::JobSpec& spec, const std::vector<std::string>& allowed,
                           const std::vector<NamedPath>& further) {
  if (allowed.empty()) return absl::OkStatus();
  std::vector<NamedPath> paths = PathsOf(spec);
  paths.insert(paths.end(), further.begin(), further.end());
  for (const auto& [field, path] : paths) {
    const fs::path real = Real(path);
    if (path.empty() || std::any_of(allowed.begin(), allowed.end(),
                                    [&](const std::string& one) { return LiesIn(real, Real(one)); }))
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": ", path, " lies in none of the directories that are allowed (allowed_directories): ",
        absl::StrJoin(allowed, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace medley
