#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace medley {

// The value below which `share` (0 to 1) of ascending values lie, straight between neighbours. `ascending`: one or more.
inline double Quantile(const std::vector<double>& ascending, double share) {
  const double place = share * static_cast<double>(ascending.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, ascending.size() - 1);
  if (place == static_cast<double>(below)) return ascending[below];  // whatever its neighbour is
  return ascending[below] + (place - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

// Of values in any order, one or more; of an even number, the mean of the two in the middle.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return Quantile(values, 0.5);
}

}  // namespace medley
