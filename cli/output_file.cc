#include "cli/output_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace medley {

absl::Status CannotWrite(const std::string& what) {
  const std::string why = errno == 0 ? "" : absl::StrCat(": ", std::generic_category().message(errno));
  return absl::UnavailableError(absl::StrCat("cannot write ", what, why));
}

absl::Status CheckOutputFile(const std::string& option, const std::string& file) {
  if (file.empty() || file == "-") return absl::OkStatus();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    return absl::InvalidArgumentError(absl::StrCat(option, " ", file, ": is a folder, not a file"));
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  const bool is_missing =
      !error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  return absl::InvalidArgumentError(
      is_missing ? absl::StrCat(option, " ", file, ": there is no folder ", folder.string())
                 : absl::StrCat(option, " ", file, ": ", folder.string(), ": ", error.message()));
}

absl::Status WriteOutputFile(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : CannotWrite(path);
}

}  // namespace medley
