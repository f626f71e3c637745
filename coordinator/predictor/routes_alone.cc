#include "coordinator/predictor/routes_alone.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/ir/plan/part_of_plan.h"

namespace medley {
namespace {

AtOnce More(const AtOnce& a, const AtOnce& b) {
  AtOnce more;
  for (const WayLevel level : kWayLevels) more[level] = std::max(a[level], b[level]);
  return more;
}

}  // namespace

RoutesAlone::Crossings::Crossings(const SharedWays& ways, int blocks)
    : ways_(ways), blocks_(blocks + 1), counts_(ways.count() * blocks_) {}

RoutesAlone::RoutesAlone(const PlanningProblem& problem, const SharedWays& ways, const Plan& plan,
                         const std::vector<std::vector<int>>& devices_of_unit)
    : problem_(problem),
      ways_(ways),
      plan_(plan),
      devices_of_unit_(devices_of_unit),
      of_all_(ways, problem.shape.model.blocks()),
      of_these_(of_all_) {
  for (const std::vector<int>& devices : devices_of_unit) {
    for (const int d : devices) ++used_on_host_[problem.devices[d].host];
  }
  if (ways.count() == 0) return;
  for (const std::vector<int>& routes : RoutesThatMeet(plan)) Count(routes, 1, of_all_);
}

void RoutesAlone::Count(const std::vector<int>& routes, int times, Crossings& crossings) const {
  std::set<std::pair<UnitId, UnitId>> known;
  for (const int r : routes) {
    const std::vector<UnitId>& units = plan_.routes[r].units;
    BlockId boundary = 0;
    for (size_t s = 0; s + 1 < units.size(); ++s) {
      const Unit& unit = plan_.units[units[s].value()];
      boundary = unit.chunks[ChunkFrom(unit, boundary)].end;
      if (routes.size() > 1 && !known.emplace(units[s], units[s + 1]).second) continue;
      const int before = devices_of_unit_[units[s].value()].front(),
                behind = devices_of_unit_[units[s + 1].value()].front();
      for (const bool is_before : {true, false}) {
        const int here = is_before ? before : behind, there = is_before ? behind : before;
        for (const WayLevel level : kWayLevels) {
          const int place = ways_.PlaceOf(level, here);
          if (place >= 0 && place != ways_.PlaceOf(level, there))
            crossings.Of(level, place, boundary, is_before) += times;
        }
      }
    }
  }
}

std::vector<MessagesAtOnce> RoutesAlone::AtOnceOf(const std::vector<int>& routes) {
  Count(routes, 1, of_these_);
  const auto at_once_at = [&](int d, BlockId boundary, bool behind) {
    const auto ratio = [](int all, int these) { return these > 0 ? static_cast<double>(all) / these : 1; };
    AtOnce at_once;
    for (const WayLevel level : kWayLevels) {
      if (const int place = ways_.PlaceOf(level, d); place >= 0)
        at_once[level] =
            ratio(of_all_.Of(level, place, boundary, behind), of_these_.Of(level, place, boundary, behind));
    }
    return at_once;
  };
  std::vector<MessagesAtOnce> at_once;
  for (const UnitId u : UnitsOf(plan_, routes)) {
    for (const int d : devices_of_unit_[u.value()]) {
      MessagesAtOnce& most = at_once.emplace_back();
      for (const BlockRange& blocks : plan_.units[u.value()].chunks) {
        most.before = More(most.before, at_once_at(d, blocks.first, false));
        most.behind = More(most.behind, at_once_at(d, blocks.end, true));
      }
    }
  }
  Count(routes, -1, of_these_);
  return at_once;
}

std::string RoutesAlone::DescribeAtOnce(const std::vector<int>& routes) {
  std::string text;
  if (ways_.count() == 0) return text;
  for (const MessagesAtOnce& of : AtOnceOf(routes)) {
    for (const WayLevel level : kWayLevels)
      absl::StrAppend(&text, "*", of.before[level], ",", of.behind[level]);
  }
  return text;
}

std::vector<int> RoutesAlone::DevicesOf(const std::vector<int>& routes) const {
  std::vector<int> devices;
  for (const UnitId u : UnitsOf(plan_, routes)) {
    const std::vector<int>& of_unit = devices_of_unit_[u.value()];
    devices.insert(devices.end(), of_unit.begin(), of_unit.end());
  }
  return devices;
}

PlanningProblem RoutesAlone::ProblemOf(const std::vector<int>& routes) {
  const std::vector<int> devices = DevicesOf(routes);
  PlanningProblem alone = OnDevices(problem_, devices);
  for (DeviceCost& device : alone.devices) Slow(device);
  if (ways_.count() > 0) alone.ways = ways_.Among(devices, AtOnceOf(routes));
  return alone;
}

PlanningProblem RoutesAlone::ProblemWith(const std::vector<int>& routes) {
  const std::vector<int> devices = DevicesOf(routes);
  PlanningProblem whole = problem_;
  for (const int d : devices) Slow(whole.devices[d]);
  if (ways_.count() == 0) return whole;
  std::vector<int> all(problem_.devices.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<MessagesAtOnce> at_once(all.size());
  const std::vector<MessagesAtOnce> of_these = AtOnceOf(routes);
  for (size_t i = 0; i < devices.size(); ++i) at_once[devices[i]] = of_these[i];
  whole.ways = ways_.Among(all, at_once);
  return whole;
}

// Makes a device what it is while all that the plan uses of its host compute.
void RoutesAlone::Slow(DeviceCost& cost) const {
  if (cost.shared_with <= 0) return;
  const int others = used_on_host_.at(cost.host) - 1;
  const double factor = SlowdownBeside(cost, cost.shared_slowdown, others);
  const double of_updates = SlowdownBeside(cost, cost.shared_update_slowdown, others);
  const auto slow = [&](std::vector<BlockTimes>& times) {
    for (BlockTimes& of : times) {
      for (PassTimes* pass : {&of.embedding, &of.layer, &of.head}) {
        for (const auto seconds : kAllPassTimes) pass->*seconds *= factor;
      }
    }
  };
  slow(cost.times);
  cost.update_seconds_per_parameter *= of_updates;
  cost.norm_seconds_per_parameter *= of_updates;
  for (ShareCost& share : cost.shares) {
    slow(share.times);
    share.update_seconds_per_parameter *= of_updates;
    share.norm_seconds_per_parameter *= of_updates;
  }
  cost.shared_with = 0;
  cost.shared_slowdown = cost.shared_update_slowdown = 1;
}

}  // namespace medley
