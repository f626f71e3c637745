#pragma once
#include <concepts>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace medley {

// For messages: "1 route", "2 routes", "0 routes"; `several`: of what does not just get an s.
std::string Counted(std::integral auto count, absl::string_view thing, absl::string_view several = "") {
  if (count == 1 || several.empty()) return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
  return absl::StrCat(count, " ", several);
}

}  // namespace medley
