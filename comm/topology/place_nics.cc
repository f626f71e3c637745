#include "comm/topology/place_nics.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The wrong NIC costs 14 to 50 % (DESIGN.md).
constexpr double kWorthBeingFar = 0.5;
constexpr double kSameSpeed = 0.9;

// Whether "mlx5_0" or "mlx5_0:1" means the port "mlx5_0:1".
bool Means(const std::string& name, const std::string& own) {
  return own == name || own.substr(0, own.find(':')) == name;
}

bool IsCalled(const Nic& nic, const std::string& name) {
  const std::vector<std::string> names = nic.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& own) { return Means(name, own); });
}

std::string NameOf(const Nic& nic) {
  const std::vector<std::string> names = nic.names();
  return names.empty() ? nic.pci_address : absl::StrJoin(names, "/");
}

absl::Status CheckAllowed(const HostTopology& topology, const PlacementOptions& options) {
  if (options.most_rails < 1) {
    return absl::InvalidArgumentError(absl::StrCat("most_rails is ", options.most_rails, ", not at least 1"));
  }
  for (const std::string& name : options.allowed) {
    if (std::any_of(topology.nics.begin(), topology.nics.end(),
                    [&](const Nic& nic) { return IsCalled(nic, name); })) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "network_devices is \"", absl::StrJoin(options.allowed, ","), "\", and \"", name,
        "\" is no network device here; there are: ",
        absl::StrJoin(topology.nics, ", ", [](std::string* out, const Nic& nic) { *out += NameOf(nic); })));
  }
  return absl::OkStatus();
}

// What was left out on the way, for the explanation.
struct Candidates {
  std::vector<int> nics;
  std::vector<std::string> passed_over;

  // Keeps those that `keep` wants, if there are any.
  void Prefer(const HostTopology& topology, const std::string& why,
              const std::function<bool(const Nic&)>& keep) {
    const auto wanted = [&](int nic) { return keep(topology.nics[nic]); };
    if (std::none_of(nics.begin(), nics.end(), wanted)) return;
    const auto middle = std::stable_partition(nics.begin(), nics.end(), wanted);
    if (middle == nics.end()) return;
    const std::string names = absl::StrJoin(
        middle, nics.end(), ", ", [&](std::string* out, int nic) { *out += NameOf(topology.nics[nic]); });
    passed_over.push_back(absl::StrCat(names, " (", why, ")"));
    nics.erase(middle, nics.end());
  }

  double FastestBytesPerSecond(const HostTopology& topology) const {
    double fastest = 0;
    for (const int nic : nics) fastest = std::max(fastest, topology.nics[nic].BytesPerSecond());
    return fastest;
  }
};

// Its interfaces, and the ports of devices that can be used.
std::vector<std::string> UsableNames(const Nic& nic, const UsableRdmaDevices& rdma_devices) {
  std::vector<std::string> names = nic.interfaces;
  for (const std::string& port : nic.fabric_ports) {
    const bool is_usable =
        !rdma_devices || std::any_of(rdma_devices->begin(), rdma_devices->end(),
                                     [&](const std::string& device) { return Means(device, port); });
    if (is_usable) names.push_back(port);
  }
  return names;
}

// By NIC: its names that traffic may go by. Those that are allowed; where these are ports alone that cannot be
// used, the interfaces of the same NICs.
using NamesByNic = std::vector<std::vector<std::string>>;

NamesByNic NamesToUse(const HostTopology& topology, const PlacementOptions& options) {
  const auto is_any = [&](const auto& condition) {
    return std::any_of(options.allowed.begin(), options.allowed.end(), condition);
  };
  NamesByNic named, beside;
  bool has_named = false;
  for (const Nic& nic : topology.nics) {
    std::vector<std::string> its;
    if (nic.is_up) its = UsableNames(nic, options.rdma_devices);
    const bool is_allowed = is_any([&](const std::string& name) { return IsCalled(nic, name); });
    beside.push_back(nic.is_up && is_allowed ? nic.interfaces : std::vector<std::string>());
    std::erase_if(its, [&](const std::string& own) {
      return !options.allowed.empty() && !is_any([&](const std::string& name) { return Means(name, own); });
    });
    has_named |= !its.empty();
    named.push_back(std::move(its));
  }
  return has_named ? named : beside;
}

Candidates Usable(const HostTopology& topology, const NamesByNic& names) {
  Candidates found;
  for (int i = 0; i < static_cast<int>(topology.nics.size()); ++i) {
    if (!names[i].empty()) found.nics.push_back(i);
  }
  found.Prefer(topology, "loopback", [](const Nic& nic) { return !nic.is_loopback; });
  found.Prefer(topology, "virtual", [](const Nic& nic) { return !nic.is_virtual; });
  const double fastest = found.FastestBytesPerSecond(topology);
  found.Prefer(topology, "less than half as fast as another", [fastest](const Nic& nic) {
    return nic.BytesPerSecond() == 0 || nic.BytesPerSecond() >= kWorthBeingFar * fastest;
  });
  return found;
}

// `usable` without those that are farther, or as near and slower.
Candidates Nearest(const HostTopology& topology, const Locality& device, Candidates usable) {
  int nearest = -1;
  for (const int nic : usable.nics)
    nearest = std::max(nearest, Nearness(device, topology.nics[nic].locality));
  usable.Prefer(topology, "farther",
                [&](const Nic& nic) { return Nearness(device, nic.locality) == nearest; });
  const double fastest = usable.FastestBytesPerSecond(topology);
  usable.Prefer(topology, "slower",
                [fastest](const Nic& nic) { return nic.BytesPerSecond() >= kSameSpeed * fastest; });
  return usable;
}

std::string HowNear(int nearness) {
  if (nearness > 1) return absl::StrCat("under the same PCI switch (", nearness, " bridges shared)");
  if (nearness == 1) return "under the same PCI host bridge";
  if (nearness == 0) return "on the same NUMA node";
  return "not known to be near";
}

std::string Explain(const HostTopology& topology, const PlacedDevice& device, const Candidates& equal,
                    const std::vector<int>& rails) {
  if (rails.empty()) return absl::StrCat(device.name, " has no NIC: none that is allowed is up.");
  const Nic& first = topology.nics[rails.front()];
  const std::string names =
      absl::StrJoin(rails, ", ", [&](std::string* out, int nic) { *out += NameOf(topology.nics[nic]); });
  std::string text =
      absl::StrCat(device.name, " uses ", names, ": ", HowNear(Nearness(device.locality, first.locality)));
  if (first.BytesPerSecond() > 0) absl::StrAppendFormat(&text, ", %.3g GB/s", first.BytesPerSecond() / 1e9);
  if (equal.nics.size() > 1) absl::StrAppend(&text, ", ", equal.nics.size(), " of equal worth");
  if (!equal.passed_over.empty()) absl::StrAppend(&text, "; not ", absl::StrJoin(equal.passed_over, ", "));
  return text + ".";
}

}  // namespace

int Nearness(const Locality& a, const Locality& b) {
  const auto [end, unused] =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const int shared = static_cast<int>(end - a.bridges.begin());
  if (shared > 0) return shared;
  return a.numa_node >= 0 && a.numa_node == b.numa_node ? 0 : -1;
}

absl::StatusOr<std::vector<NicPlacement>> PlaceNics(const HostTopology& topology,
                                                    absl::Span<const PlacedDevice> devices,
                                                    const PlacementOptions& options) {
  RETURN_IF_ERROR(CheckAllowed(topology, options));
  const NamesByNic names = NamesToUse(topology, options);
  const Candidates usable = Usable(topology, names);
  std::vector<Candidates> equal;
  for (const PlacedDevice& device : devices) equal.push_back(Nearest(topology, device.locality, usable));
  // Those with the least choice choose first.
  std::vector<int> turns(devices.size());
  std::iota(turns.begin(), turns.end(), 0);
  std::stable_sort(turns.begin(), turns.end(),
                   [&](int a, int b) { return equal[a].nics.size() < equal[b].nics.size(); });
  std::vector<int> begin_with(topology.nics.size(), 0), use(topology.nics.size(), 0);
  std::vector<NicPlacement> placements(devices.size());
  for (const int device : turns) {
    std::vector<int> rails = equal[device].nics;
    std::stable_sort(rails.begin(), rails.end(), [&](int a, int b) {
      return std::pair(begin_with[a], use[a]) < std::pair(begin_with[b], use[b]);
    });
    if (static_cast<int>(rails.size()) > options.most_rails) rails.resize(options.most_rails);
    if (!rails.empty()) ++begin_with[rails.front()];
    NicPlacement& placement = placements[device];
    placement = {.nics = rails, .reason = Explain(topology, devices[device], equal[device], rails)};
    for (const int nic : rails) {
      ++use[nic];
      placement.names.insert(placement.names.end(), names[nic].begin(), names[nic].end());
    }
  }
  return placements;
}

}  // namespace medley
