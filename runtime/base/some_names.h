#pragma once
#include <cstddef>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {

// For messages: "a, b, c", and of more names than `most` the first ones: "a, b and 7 more".
template <typename Names>
std::string SomeNames(const Names& names, size_t most = 12) {
  const size_t count = std::size(names);
  if (count <= most) return absl::StrJoin(names, ", ");
  const auto end = std::next(std::begin(names), static_cast<std::ptrdiff_t>(most));
  return absl::StrCat(absl::StrJoin(std::begin(names), end, ", "), " and ", count - most, " more");
}

}  // namespace medley
