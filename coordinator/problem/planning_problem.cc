#include "coordinator/problem/planning_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/faster_shares.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/device_costs.h"
#include "coordinator/problem/network.h"
#include "coordinator/problem/processors.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/cluster/not_measured.h"

namespace medley {
namespace {

absl::StatusOr<std::vector<AllowedDevice>> DevicesOf(const TrainingSpec& spec,
                                                     const JobConstraints& constraints,
                                                     const Cluster& cluster) {
  std::set<std::string> nodes, names;
  std::vector<std::string> refused;
  bool emulated = false;
  const std::set<std::string> wanted(constraints.devices.begin(), constraints.devices.end());
  std::vector<AllowedDevice> devices;
  for (const ClusterNode& node : cluster.nodes) {
    if (!nodes.insert(node.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("nodes: \"", node.name, "\" is there twice"));
    }
    for (const ClusterDevice& device : node.devices) {
      const std::string name = FullName(node.name, device);
      if (!names.insert(name).second) {
        return absl::InvalidArgumentError(absl::StrCat("nodes: device \"", name, "\" is there twice"));
      }
      if (device.description.memory_limit.value == 0) {
        return absl::InvalidArgumentError(absl::StrCat("nodes: device \"", name, "\" has no memory_bytes"));
      }
      if (!wanted.empty() && wanted.count(name) == 0) continue;
      if (device.emulated && !spec.allow_emulated) {
        emulated = true;
        if (!wanted.empty()) refused.push_back(name);
        continue;
      }
      devices.push_back({name, &node, &device});
    }
  }
  for (const std::string& name : wanted) {
    if (names.count(name) > 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "constraints.devices: \"", name,
        "\" is none of the devices there are: ", names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  if (!refused.empty()) return EmulatedRefusal("constraints.devices", refused);
  if (devices.empty()) {
    return absl::FailedPreconditionError(
        emulated ? "there are no devices but emulated ones, and the job does not have allow_emulated: true"
                 : "there are no devices");
  }
  return devices;
}

// By device, the share that a pinned plan gives it in a unit of several; AtOrigin. Plans that break rules are
// refused elsewhere.
std::map<std::string, ModelShare> PinnedShares(const JobConstraints& constraints, const ModelConfig& model) {
  std::map<std::string, ModelShare> shares;
  if (!constraints.plan) return shares;
  for (const Unit& unit : constraints.plan->units) {
    const size_t degree = unit.devices.size();
    const bool in_order = unit.shares.empty() || unit.shares.size() == degree;
    if (degree < 2 || !in_order || !SharingObjection(model, static_cast<int>(degree)).empty()) continue;
    const std::vector<ModelShare> of_ranks = SharesOf(unit, model);
    for (size_t m = 0; m < degree; ++m) shares.emplace(unit.devices[m], AtOrigin(of_ranks[m]));
  }
  return shares;
}

std::vector<int> MissingSizes(const Cluster& cluster, const std::string& kind, const std::string& shape,
                              const std::vector<int>& sizes) {
  std::vector<int> missing;
  for (const int size : sizes) {
    if (FindProfile(cluster, kind, shape, size, nullptr) == nullptr) missing.push_back(size);
  }
  return missing;
}

std::vector<MissingProfile> MissingOf(const std::vector<AllowedDevice>& devices,
                                      const std::vector<int>& sizes, const TrainingSpec& spec,
                                      const std::map<std::string, ModelShare>& pinned,
                                      const Cluster& cluster) {
  std::vector<MissingProfile> whole, shared;
  std::set<std::pair<std::string, std::string>> seen;  // kind, shape
  for (const AllowedDevice& device : devices) {
    const std::string& kind = device.device->kind;
    const auto share = pinned.find(device.name);
    const auto look_at = [&](std::optional<ModelShare> of, std::vector<MissingProfile>& missing) {
      const std::string shape = ShapeKey(of ? WithShare(spec, *of) : spec);
      MissingProfile entry{.device_kind = kind, .device = device.name, .share = of};
      entry.needed = of || share == pinned.end();
      if (!seen.emplace(kind, shape).second) {
        for (MissingProfile& other : missing) {
          if (other.device_kind == kind && other.share == of) other.needed |= entry.needed;
        }
        return;
      }
      entry.micro_batch_sizes = MissingSizes(cluster, kind, shape, sizes);
      if (!entry.micro_batch_sizes.empty()) missing.push_back(std::move(entry));
    };
    look_at(std::nullopt, whole);
    if (share != pinned.end()) look_at(share->second, shared);
  }
  whole.insert(whole.end(), shared.begin(), shared.end());
  return whole;
}

absl::Status MissingError(const std::vector<MissingProfile>& missing, const TrainingSpec& spec) {
  std::map<std::string, std::vector<std::string>> by_shape;
  for (const MissingProfile& entry : missing) {
    if (!entry.needed) continue;
    by_shape[ShapeKey(entry.share ? WithShare(spec, *entry.share) : spec)].push_back(
        absl::StrCat("\"", entry.device_kind, "\" (", entry.device, ") with micro-batches of ",
                     absl::StrJoin(entry.micro_batch_sizes, ", ")));
  }
  if (by_shape.empty()) return absl::OkStatus();
  std::vector<std::string> parts;
  for (const auto& [shape, kinds] : by_shape)
    parts.push_back(
        absl::StrCat("no profile for shape \"", shape, "\" of device kind ", absl::StrJoin(kinds, "; ")));
  return NotMeasuredError(absl::StrJoin(parts, "; "));
}

// What was measured of the shares that the planner chooses from: those of all ranks of a unit, whichever it is of, so that alike devices
// know the same.
void AddSharesToChooseFrom(const std::vector<AllowedDevice>& devices, const TrainingSpec& spec,
                           const Cluster& cluster, PlanningProblem& problem) {
  // Which shares go by speed depends on what was measured of even ones.
  for (const Sharing sharing : {Sharing::kEven, Sharing::kBySpeed}) {
    for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
      for (const SharedUnit& unit : UnitsOfDegree(problem, degree, sharing)) {
        for (const int d : unit.devices) {
          for (const ModelShare& of_rank : unit.shares) {
            const ModelShare share = AtOrigin(of_rank);
            if (CostsOf(problem.devices[d], spec.shape.model, share)) continue;
            AddShare(devices[d], share, problem.micro_batch_sizes, spec, cluster, problem.devices[d]);
          }
        }
      }
    }
  }
}

// Whether the gradient of the weights was measured by itself on every device.
bool MeasuredApart(const std::vector<AllowedDevice>& devices, const std::vector<int>& sizes,
                   const TrainingSpec& spec, const Cluster& cluster) {
  const std::string shape = ShapeKey(spec);
  return std::all_of(devices.begin(), devices.end(), [&](const AllowedDevice& device) {
    return std::all_of(sizes.begin(), sizes.end(), [&](int size) {
      const ProfiledTimes* times = nullptr;
      return FindProfile(cluster, device.device->kind, shape, size, &times) != nullptr &&
             times->blocks.layer.weight_gradient_seconds > 0;
    });
  });
}

void SetSchedules(const JobConstraints& constraints, bool measured_apart, PlanConstraints& allowed) {
  const std::vector<Schedule>& named = constraints.schedules;
  allowed.synthesised_orders =
      named.empty() ? measured_apart : std::count(named.begin(), named.end(), Schedule::kListed) > 0;
  if (named.empty()) return;
  allowed.schedules = named;
  std::erase(allowed.schedules, Schedule::kListed);
}

enum class Missing : uint8_t { kRefused, kLeftOpen };

// With kLeftOpen devices have what was measured of them, and links take no time.
absl::StatusOr<PlanningProblem> BuildProblem(const TrainingSpec& spec, const JobConstraints& constraints,
                                             const Cluster& cluster, Missing missing) {
  ASSIGN_OR_RETURN(const std::vector<AllowedDevice> devices, DevicesOf(spec, constraints, cluster));
  PlanningProblem problem;
  problem.shape = spec.shape;
  problem.precision = spec.precision;
  problem.micro_batch_sizes = CandidateMicroBatches(constraints, spec.shape.global_batch_sequences);
  SetSchedules(constraints, MeasuredApart(devices, problem.micro_batch_sizes, spec, cluster),
               problem.constraints);
  problem.constraints.post_validation = constraints.post_validation.value_or(spec.optimizer.clip_norm == 0);
  problem.constraints.saves_memory = true;
  problem.constraints.max_routes = constraints.max_routes;
  problem.constraints.max_stages = constraints.max_stages;
  problem.constraints.most_price_per_hour = constraints.most_price_per_hour;
  problem.constraints.most_devices = constraints.most_devices;
  problem.forced_all_reduce = spec.communication.all_reduce;
  problem.wire_bytes_per_element = spec.communication.gradient_wire == Precision::kBf16 ? 2 : 4;
  problem.device_memory = spec.communication.device_memory;
  problem.message_protection = spec.communication.message_protection;

  const std::map<std::string, ModelShare> pinned = PinnedShares(constraints, spec.shape.model);
  const std::vector<int>& sizes = problem.micro_batch_sizes;

  std::vector<HeldCores> cores;
  for (const AllowedDevice& device : devices) {
    DeviceCost& cost = problem.devices.emplace_back(MakeDevice(device, sizes, spec, cluster));
    const auto share = pinned.find(device.name);
    if (share != pinned.end()) AddShare(device, share->second, sizes, spec, cluster, cost);
    const ClusterNode& node = *device.node;
    const std::vector<int>& held = device.device->description.cores;
    cost.cores = static_cast<int>(held.size());
    cores.push_back({node.host.empty() ? absl::StrCat("node ", node.name) : absl::StrCat("host ", node.host),
                     {held.begin(), held.end()}});
  }
  const std::vector<int> processors = SharedProcessors(cores);
  const size_t count = devices.size();
  std::map<std::string, int> hosts;
  for (size_t d = 0; d < count; ++d) {
    problem.devices[d].processor = processors[d];
    problem.devices[d].host = hosts.emplace(cores[d].host, static_cast<int>(hosts.size())).first->second;
  }
  SetHostMemory(devices, problem.devices);
  std::vector<NodeNetwork> networks;
  for (const AllowedDevice& device : devices)
    networks.push_back({device.node->site, device.node->rack, device.node->network_cards});
  SetNetwork(networks, problem);
  if (!constraints.plan) AddSharesToChooseFrom(devices, spec, cluster, problem);
  if (missing == Missing::kRefused) {
    std::vector<MissingProfile> profiles = MissingOf(devices, sizes, spec, pinned, cluster);
    // Who has a share to take part with does without whole blocks.
    std::erase_if(profiles, [&](const MissingProfile& profile) {
      const auto shares = [&](const DeviceCost& device) {
        return device.kind == profile.device_kind && !device.shares.empty();
      };
      return !constraints.plan && std::any_of(problem.devices.begin(), problem.devices.end(), shares);
    });
    RETURN_IF_ERROR(MissingError(profiles, spec));
  }
  if (missing == Missing::kRefused) {
    ASSIGN_OR_RETURN(problem.links, LinksOf(devices, cluster));
  } else {
    problem.links = DeviceLinks(std::vector<int>(count, 0), std::vector<int>(count, 0), 1);
  }
  AddSlowdowns(devices, cluster, ShapeKey(spec), problem.devices);
  return problem;
}

// One of each kind and share.
std::vector<MissingProfile> MissingOfShares(const PlanningProblem& problem,
                                            const std::vector<WantedShare>& shares) {
  std::vector<MissingProfile> missing;
  for (const WantedShare& wanted : shares) {
    const DeviceCost& device = problem.devices[wanted.device];
    const bool known = std::any_of(missing.begin(), missing.end(), [&](const MissingProfile& other) {
      return other.device_kind == device.kind && other.share == wanted.share;
    });
    if (known) continue;
    missing.push_back({.device_kind = device.kind,
                       .device = device.name,
                       .share = wanted.share,
                       .micro_batch_sizes = problem.micro_batch_sizes});
  }
  return missing;
}

}  // namespace

absl::Status EmulatedRefusal(const std::string& field, const std::vector<std::string>& devices) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", absl::StrJoin(devices, ", "), devices.size() == 1 ? " is" : " are",
                   " emulated and would compute nothing; a rehearsal says allow_emulated: true"));
}

absl::StatusOr<std::vector<MissingProfile>> MissingProfiles(const TrainingSpec& spec,
                                                            const JobConstraints& constraints,
                                                            const Cluster& cluster) {
  ASSIGN_OR_RETURN(const std::vector<AllowedDevice> devices, DevicesOf(spec, constraints, cluster));
  const std::vector<int> sizes = CandidateMicroBatches(constraints, spec.shape.global_batch_sequences);
  return MissingOf(devices, sizes, spec, PinnedShares(constraints, spec.shape.model), cluster);
}

absl::StatusOr<PlanningProblem> MakeProblem(const TrainingSpec& spec, const JobConstraints& constraints,
                                            const Cluster& cluster) {
  return BuildProblem(spec, constraints, cluster, Missing::kRefused);
}

absl::StatusOr<SharingNeeds> FindSharingNeeds(const TrainingSpec& spec, const JobConstraints& constraints,
                                              const Cluster& cluster, const SearchLimits& limits) {
  ASSIGN_OR_RETURN(const PlanningProblem problem,
                   BuildProblem(spec, constraints, cluster, Missing::kLeftOpen));
  SharingNeeds needs;
  for (const DeviceCost& device : problem.devices) {
    if (!device.times.empty() || !device.shares.empty()) needs.usable.push_back(device.name);
  }
  needs.nothing_fits_alone = !FitsWithoutSharing(problem, limits);
  if (needs.nothing_fits_alone) needs.missing = MissingOfShares(problem, SharesToMeasure(problem, limits));
  return needs;
}

absl::StatusOr<std::vector<MissingProfile>> MissingFasterShares(const TrainingSpec& spec,
                                                                const JobConstraints& constraints,
                                                                const Cluster& cluster) {
  if (constraints.plan) return std::vector<MissingProfile>();
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(spec, constraints, cluster));
  return MissingOfShares(problem, FasterShares(problem));
}

}  // namespace medley
