#include "coordinator/predictor/alike_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace medley {

AlikePlaces::AlikePlaces(const PlanningProblem& problem, const SharedWays& ways,
                         const std::vector<StageGroup>& groups)
    : groups_(groups.size()) {
  if (ways.count() == 0) return;
  for (const WayLevel level : kWayLevels) {
    if (level != WayLevel::kHost && ways.places(level) == 0) continue;
    std::map<int, std::pair<double, std::set<int>>> by_place;  // and groups
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const int d : groups[g].devices) {
        const int way = ways.PlaceOf(level, d);
        // Hosts take part in sums whether their cards are known or not.
        auto& of_place = by_place[level == WayLevel::kHost ? HostOf(problem, d) : way];
        of_place.first = way < 0 ? 0 : ways.BytesPerSecondOf(level, way);
        of_place.second.insert(static_cast<int>(g));
      }
    }
    std::map<std::pair<double, std::set<int>>, size_t> known;
    for (const auto& [number, of] : by_place) {
      const auto [place, inserted] = known.try_emplace(of, places_.size());
      if (inserted) places_.push_back({level, of.first, {of.second.begin(), of.second.end()}});
      ++places_[place->second].count;
    }
  }
}

std::vector<WayPart> AlikePlaces::PartsOfSum(const std::vector<int>& holders, double bytes,
                                             double seconds) const {
  std::vector<char> holds(groups_, 0);
  for (const int g : holders) holds[g] = 1;
  const auto held = [&](const Places& of) {
    return std::any_of(of.groups.begin(), of.groups.end(), [&](int g) { return holds[g] != 0; });
  };
  ByLevel<int> members;
  for (const Places& of : places_) members[of.level] += held(of) ? of.count : 0;
  std::vector<WayPart> parts;
  for (size_t p = 0; p < places_.size(); ++p) {
    const Places& of = places_[p];
    if (of.bytes_per_second <= 0 || of.groups.size() < 2 || !held(of)) continue;
    parts.push_back(
        {static_cast<int>(p), SharedWays::PartOfSum(of.bytes_per_second, members[of.level], bytes, seconds)});
  }
  return parts;
}

}  // namespace medley
