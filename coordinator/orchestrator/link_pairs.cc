#include "coordinator/orchestrator/link_pairs.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

bool IsOnCores(const ClusterDeviceLocation& device) { return !device.device.description.cores.empty(); }

}  // namespace

std::string MachineOf(const ClusterDeviceLocation& device) {
  return device.host.empty() ? absl::StrCat("node ", device.node) : absl::StrCat("host ", device.host);
}

std::string LinkKind(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b) {
  const bool by_place = MachineOf(a) == MachineOf(b) && (IsOnCores(a) || IsOnCores(b));
  const auto end = [&](const ClusterDeviceLocation& device) {
    return std::make_pair(
        by_place ? absl::StrCat(device.node, "/", device.device.description.name) : device.node,
        device.device.kind);
  };
  const auto [first, second] = std::minmax({end(a), end(b)});  // copies: the ends are temporaries
  return absl::StrCat(first.first, " - ", second.first, ": ", first.second, ", ", second.second);
}

std::vector<DevicePair> PairsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                       const std::vector<std::string>& known_kinds) {
  std::set<std::string> known(known_kinds.begin(), known_kinds.end());
  std::vector<DevicePair> pairs;
  for (int second = 1; second < static_cast<int>(devices.size()); ++second) {
    for (int first = 0; first < second; ++first) {
      if (known.insert(LinkKind(devices[first], devices[second])).second) pairs.push_back({first, second});
    }
  }
  return pairs;
}

std::vector<std::vector<DevicePair>> ProbeRounds(const std::vector<ClusterDeviceLocation>& devices,
                                                 const std::vector<DevicePair>& pairs) {
  std::vector<std::vector<DevicePair>> rounds;
  std::vector<std::set<std::string>> busy;  // machines, by round
  for (const DevicePair& pair : pairs) {
    const std::string first = MachineOf(devices[pair.first]), second = MachineOf(devices[pair.second]);
    size_t round = 0;
    while (round < rounds.size() && (busy[round].count(first) > 0 || busy[round].count(second) > 0)) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      busy.emplace_back();
    }
    rounds[round].push_back(pair);
    busy[round].insert({first, second});
  }
  return rounds;
}

}  // namespace medley
