#include "coordinator/planner/classes/parts_alone.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/work_bound.h"

namespace medley {
namespace {

// Tells which devices are alike by themselves, wherever they are.
class MakeUps {
 public:
  explicit MakeUps(const PlanningProblem& problem) {
    std::vector<const DeviceCost*> makes;
    for (const DeviceCost& device : problem.devices) {
      const auto known = std::find_if(makes.begin(), makes.end(),
                                      [&](const DeviceCost* make) { return AreOfOneMake(*make, device); });
      make_of_device_.push_back(static_cast<int>(known - makes.begin()));
      if (known == makes.end()) makes.push_back(&device);
    }
  }

  // Whether these devices of the problem are like none that were asked about before; `alone`: the problem on them alone.
  bool IsNew(const std::vector<int>& devices, const PlanningProblem& alone) {
    std::map<int, std::map<int, int>> hosts;
    for (size_t d = 0; d < devices.size(); ++d)
      ++hosts[HostOf(alone, static_cast<int>(d))][make_of_device_[devices[d]]];
    MakeUp make_up;
    for (const auto& [host, devices_by_make] : hosts) ++make_up.hosts[devices_by_make];
    for (const LinkedDevices& link : KindsOfLinks(alone)) {
      const auto [first, second] =
          std::minmax(make_of_device_[devices[link.a]], make_of_device_[devices[link.b]]);
      make_up.links.emplace(first, second, link.within_host, NumberOf(alone.links.Between(link.a, link.b)));
    }
    return known_.insert(std::move(make_up)).second;
  }

 private:
  struct MakeUp {
    std::map<std::map<int, int>, int> hosts;             // by their devices by make, how many
    std::set<std::tuple<int, int, bool, size_t>> links;  // by two makes, and whether of one host: costs
    friend auto operator<=>(const MakeUp&, const MakeUp&) = default;
  };

  size_t NumberOf(const LinkCost& cost) {
    const size_t number = std::find(costs_.begin(), costs_.end(), cost) - costs_.begin();
    if (number == costs_.size()) costs_.push_back(cost);
    return number;
  }

  std::vector<int> make_of_device_;
  std::vector<LinkCost> costs_;
  std::set<MakeUp> known_;
};

std::vector<PlanningProblem> Alone(const PlanningProblem& problem, const std::vector<int>& part_of_device,
                                   MakeUps& make_ups) {
  std::map<int, std::vector<int>> devices_of_part;
  for (size_t d = 0; d < part_of_device.size(); ++d)
    devices_of_part[part_of_device[d]].push_back(static_cast<int>(d));
  if (devices_of_part.size() < 2) return {};
  std::vector<std::pair<double, PlanningProblem>> parts;
  for (const auto& [part, devices] : devices_of_part) {
    PlanningProblem alone = OnDevices(problem, devices);
    if (!make_ups.IsNew(devices, alone)) continue;
    const double seconds = WorkSeconds(alone);
    parts.emplace_back(seconds, std::move(alone));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PlanningProblem> problems;
  for (auto& [seconds, alone] : parts) problems.push_back(std::move(alone));
  return problems;
}

}  // namespace

std::vector<int> OutermostPlaces(const PlanningProblem& problem) {
  std::vector<int> outermost;
  for (const ByLevel<int>& places : PlacesOf(problem))
    outermost.push_back(places[WayLevel::kSite] < 0 ? places[WayLevel::kRack] : places[WayLevel::kSite]);
  return outermost;
}

std::vector<PlanningProblem> Homes(const PlanningProblem& problem) {
  MakeUps make_ups(problem);
  return Alone(problem, OutermostPlaces(problem), make_ups);
}

std::vector<PlanningProblem> PartsAlone(const PlanningProblem& problem) {
  MakeUps make_ups(problem);
  std::vector<int> hosts;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) hosts.push_back(HostOf(problem, d));
  std::vector<PlanningProblem> parts;
  for (const std::vector<int>& part_of_device : {OutermostPlaces(problem), hosts}) {
    std::vector<PlanningProblem> alone = Alone(problem, part_of_device, make_ups);
    if (alone.size() > kMostAlone) alone.erase(alone.begin() + kMostAlone, alone.end());
    std::move(alone.begin(), alone.end(), std::back_inserter(parts));
  }
  return parts;
}

}  // namespace medley
