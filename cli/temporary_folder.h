#pragma once
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace medley {

// A new folder among the temporary files, which goes with this, and all that is in it.
class TemporaryFolder {
 public:
  // `name` is part of the folder's. Unavailable: it cannot be made; names it.
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create(const std::string& name) {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / (name + "-XXXXXX")).string();
    if (error || mkdtemp(path.data()) == nullptr)
      return absl::UnavailableError(absl::StrCat("cannot make ", path));
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace medley
