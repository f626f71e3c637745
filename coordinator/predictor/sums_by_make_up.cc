#include "coordinator/predictor/sums_by_make_up.h"

#include <algorithm>
#include <utility>

namespace medley {

GroupSums& SumsByMakeUp::Over(std::vector<int> devices, int at_once, bool on_hosts) {
  std::sort(devices.begin(), devices.end(), [&](int a, int b) { return places_[a] < places_[b]; });
  std::vector<std::vector<int>> make_up;
  for (const auto& [host, members] : DevicesByHost(problem_, devices)) {
    std::vector<int>& classes = make_up.emplace_back();
    for (const int d : members) classes.push_back(class_of_[d]);
    std::sort(classes.begin(), classes.end());
  }
  std::sort(make_up.begin(), make_up.end());
  std::unique_ptr<GroupSums>& sums = sums_[{at_once, on_hosts, std::move(make_up)}];
  if (sums == nullptr)
    sums = std::make_unique<GroupSums>(samples_, std::move(devices), kMostSummed, at_once, on_hosts);
  return *sums;
}

}  // namespace medley
