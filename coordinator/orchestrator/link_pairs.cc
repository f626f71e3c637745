#include "coordinator/orchestrator/link_pairs.h"

#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace medley {
namespace {

constexpr size_t kLongestClass = 1024;

bool IsOnCores(const ClusterDeviceLocation& device) { return !device.device.description.cores.empty(); }

}  // namespace

std::string MachineOf(const ClusterDeviceLocation& device) {
  return device.host.empty() ? absl::StrCat("node ", device.node) : absl::StrCat("host ", device.host);
}

std::string LinkKind(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b) {
  const bool by_place = MachineOf(a) == MachineOf(b) && (IsOnCores(a) || IsOnCores(b));
  const auto end = [&](const ClusterDeviceLocation& device) {
    return std::make_pair(by_place ? FullName(device) : device.node, device.device.kind);
  };
  const auto [first, second] = std::minmax({end(a), end(b)});  // copies: the ends are temporaries
  return absl::StrCat(first.first, " - ", second.first, ": ", first.second, ", ", second.second);
}

std::string NetworkOf(const std::string& agent_address) {
  absl::string_view host = absl::string_view(agent_address).substr(0, agent_address.rfind(':'));
  if (absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]")) {
    in6_addr address;
    if (inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1) return "";
    const auto* const bytes = reinterpret_cast<const char*>(address.s6_addr);
    return absl::StrCat(absl::BytesToHexString({bytes, 8}), "/64");
  }
  in_addr address;
  if (inet_pton(AF_INET, std::string(host).c_str(), &address) == 1)
    return absl::StrCat(host.substr(0, host.rfind('.')), ".0/24");
  const size_t dot = host.find('.');
  return dot == absl::string_view::npos ? "" : std::string(host.substr(dot + 1));
}

std::string EndBesidesRack(const ClusterDeviceLocation& device) {
  return absl::StrCat(NetworkOf(device.agent_address), device.site.empty() ? "" : " at ", device.site, " ",
                      device.device.kind);
}

std::string EndOfClass(const ClusterDeviceLocation& device) {
  return absl::StrCat(EndBesidesRack(device), device.rack.empty() ? "" : " in rack ", device.rack);
}

std::string LinkClass(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b) {
  const LinkLevel level = LevelBetween(MachineOf(a) == MachineOf(b), a, b);
  const auto end = [&](const ClusterDeviceLocation& device) {
    const std::vector<int>& cores = device.device.description.cores;
    if (level != LinkLevel::kNode) return EndBesidesRack(device);
    if (cores.empty()) return device.device.kind;
    return absl::StrCat(device.device.kind, " on cores ", absl::StrJoin(cores, ","));
  };
  const auto [first, second] = std::minmax({end(a), end(b)});  // copies: the ends are temporaries
  // Of what was measured before a rack had a name nobody knows whether it joins two racks, so links inside one are not like it.
  const bool inside_rack = level == LinkLevel::kSite && !a.rack.empty();
  const char* const joined = level == LinkLevel::kNode    ? "inside a machine: "
                             : inside_rack                ? "inside a rack: "
                             : level == LinkLevel::kRacks ? "between racks: "
                                                          : "between machines: ";
  return absl::StrCat(joined, first, " - ", second).substr(0, kLongestClass);
}

std::vector<std::vector<DevicePair>> ProbeRounds(const std::vector<ClusterDeviceLocation>& devices,
                                                 const std::vector<DevicePair>& pairs) {
  std::vector<std::vector<DevicePair>> rounds;
  std::vector<std::set<std::string>> busy;  // machines, by round
  for (const DevicePair& pair : pairs) {
    const std::string first = MachineOf(devices[pair.first]), second = MachineOf(devices[pair.second]);
    size_t round = 0;
    while (round < rounds.size() && (rounds[round].size() >= kMostProbesTogether ||
                                     busy[round].count(first) > 0 || busy[round].count(second) > 0)) {
      ++round;
    }
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
