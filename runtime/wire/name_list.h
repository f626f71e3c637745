#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// Names of nodes as one text, in the notation of Slurm and pdsh: "alpha,n[001-064,070].rack" is alpha, n001.rack to n064.rack and
// n070.rack.
namespace medley {

inline constexpr int kMostListedNames = 65536;

// In the order in which they stand. Numbers of a range have at least as many digits as its first. A text without "," and "[" is one name.
// InvalidArgument: brackets without one another, a range that is none or ends before it begins, a name twice, more than
// kMostListedNames; which names there may be is not looked at.
absl::StatusOr<std::vector<std::string>> ParseNameList(const std::string& text);

// Short, and read as the same names, ordered by number; of different names, without ",", "[" and "]".
std::string WriteNameList(const std::vector<std::string>& names);

}  // namespace medley
