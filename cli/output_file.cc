#include "cli/output_file.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace medley {

absl::Status WriteOutputFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace medley
