#include "runtime/engine/checkpoint/checkpoint_directory.h"

#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace medley {
namespace {

constexpr std::string_view kPrefix = "step-";

std::string DirectoryName(int64_t step) { return absl::StrFormat("step-%08d", step); }

}  // namespace

std::string CheckpointDirectory(const std::string& root, int64_t step) {
  return absl::StrCat(root, "/", DirectoryName(step));
}

std::optional<int64_t> StepOfDirectory(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return std::nullopt;
  const size_t slash = path.find_last_of('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string name = path.substr(begin, end + 1 - begin);
  if (name.size() <= kPrefix.size()) return std::nullopt;
  int64_t step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  // One spelling a step, so that no two directories are the same checkpoint.
  if (step < 0 || DirectoryName(step) != name) return std::nullopt;
  return step;
}

}  // namespace medley
