#pragma once
#include <string>
#include <vector>

namespace medley {

// The one of `names` that `text` was most likely meant to be: by fewest letters added, dropped or changed, at
// most a third of the text's length and at least one; or one that `text` begins or that begins with `text`.
// Empty if none is near.
std::string NearestName(const std::string& text, const std::vector<std::string>& names);

}  // namespace medley
