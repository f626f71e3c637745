#pragma once
#include <vector>

#include "absl/strings/string_view.h"

namespace medley {

// A file of the dashboard, as it stands in the program.
struct PageFile {
  absl::string_view name;  // "index.html"
  absl::string_view content_type;
  absl::string_view text;
};

const std::vector<PageFile>& PageFiles();

}  // namespace medley
