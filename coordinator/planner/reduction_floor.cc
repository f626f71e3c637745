#include "coordinator/planner/reduction_floor.h"

#include <algorithm>

namespace medley {

ReductionFloor::ReductionFloor(const PlanningProblem& problem)
    : charged_part_(problem.charges_least_scatters ? 0.5 : 1) {
  const size_t n = problem.devices.size();
  most_messages_ = 2.0 * static_cast<double>(n);
  rises_.assign(n, std::vector<LinkRise>(n));
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const LinkCost& link = problem.links.Between(static_cast<int>(a), static_cast<int>(b));
      rises_[a][b].Cover(link);
      whole_.Cover(rises_[a][b]);
    }
  }
}

double ReductionFloor::SecondsOver(const std::vector<int>& devices, int ways_in, double bytes) const {
  LinkRise rise;
  for (const int a : devices) {
    for (const int b : devices) rise.Cover(rises_[a][b]);
  }
  const double share = 2 * (static_cast<double>(devices.size()) - 1) / ways_in;
  return Seconds(rise, bytes * std::max(1.0, share), 1);
}

double ReductionFloor::Seconds(const LinkRise& rise, double bytes, int vectors) const {
  const double rising = bytes - rise.level_bytes * most_messages_ * vectors;
  return rising > 0 && rise.bytes_per_second > 0 ? charged_part_ * rising / rise.bytes_per_second : 0;
}

}  // namespace medley
