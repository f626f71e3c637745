#include "runtime/wire/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace medley {
namespace {

// Levenshtein's distance; one row of the table at a time.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

bool BeginsWith(const std::string& text, const std::string& start) {
  return start.size() >= 3 && text.compare(0, start.size(), start) == 0;
}

}  // namespace

std::string NearestName(const std::string& text, const std::vector<std::string>& names) {
  // A key may be as long as its file; beyond this no name is near.
  if (text.size() > 256) return "";
  std::string nearest;
  size_t least = std::max<size_t>(1, text.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = Distance(text, name);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  if (!nearest.empty()) return nearest;
  for (const std::string& name : names) {
    if (BeginsWith(name, text) || BeginsWith(text, name)) return name;
  }
  return "";
}

}  // namespace medley
