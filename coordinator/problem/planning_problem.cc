#include "coordinator/problem/planning_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/faster_shares.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/network.h"
#include "coordinator/problem/processors.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/cluster/not_measured.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/family.h"

namespace medley {
namespace {

// Less is what repeated measurements differ by.
constexpr double kLeastSlowdown = 1.02;

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

// The newest profile of `kind` and `shape` that has `micro_batch`, or any size if it is 0. Null if there is
// none.
const DeviceProfile* FindProfile(const Cluster& cluster, const std::string& kind, const std::string& shape,
                                 int micro_batch, const ProfiledTimes** times) {
  const DeviceProfile* newest = nullptr;
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.device_kind != kind || profile.shape != shape) continue;
    if (newest != nullptr && profile.measured_at_seconds < newest->measured_at_seconds) continue;
    for (const ProfiledTimes& candidate : profile.times) {
      if (micro_batch != 0 && candidate.micro_batch_sequences != micro_batch) continue;
      newest = &profile;
      if (times != nullptr) *times = &candidate;
    }
  }
  return newest;
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

// The gradient of an embedding's weights is all that its backward does; the head puts nothing off.
BlockTimes TimesOf(const ProfiledTimes& times, const ModelConfig& model, int sequence,
                   const ProfileCorrections& corrections) {
  const double factor = FactorOf(corrections, TimeClass::kPasses),
               of_recomputations = FactorOf(corrections, TimeClass::kRecomputations);
  const auto& [embedding, layer, head] = times.blocks;
  double layer_weights_seconds = layer.weight_gradient_seconds;
  if (layer_weights_seconds <= 0) {
    const BlockWork work = WorkOf(model, 1, times.micro_batch_sequences, sequence);
    layer_weights_seconds = layer.backward_seconds * work.weight_gradient.flops / work.backward().flops;
  }
  const double embedding_seconds = factor * embedding.backward_seconds;
  return {{factor * embedding.forward_seconds, embedding_seconds, embedding_seconds},
          {factor * layer.forward_seconds, factor * layer.backward_seconds,
           factor * std::min(layer_weights_seconds, layer.backward_seconds),
           of_recomputations * layer.recompute_seconds,
           of_recomputations * std::min(layer.recompute_but_attention_seconds, layer.recompute_seconds),
           factor * layer.split_seconds},
          {factor * head.forward_seconds, factor * head.backward_seconds, 0}};
}

// What was measured of a kind for the shape of `spec`, of a device with so much memory; none if a size is
// missing.
std::optional<ShareCost> MeasuredCost(const ClusterDevice& device, const std::vector<int>& sizes,
                                      const TrainingSpec& spec, const Cluster& cluster) {
  const std::string shape = ShapeKey(spec);
  ShareCost cost;
  for (const int size : sizes) {
    const ProfiledTimes* times = nullptr;
    const DeviceProfile* const newest = FindProfile(cluster, device.kind, shape, size, &times);
    if (newest == nullptr) return std::nullopt;
    if (times->workspace > Bytes{0}) cost.room.workspace_by_size.push_back({size, times->workspace});
    cost.times.push_back(TimesOf(*times, spec.shape.model, spec.shape.sequence, newest->corrections));
  }
  const DeviceProfile& profile = *FindProfile(cluster, device.kind, shape, 0, nullptr);
  cost.update_seconds_per_parameter =
      FactorOf(profile.corrections, TimeClass::kUpdates) * profile.update_seconds_per_parameter;
  cost.norm_seconds_per_parameter =
      FactorOf(profile.corrections, TimeClass::kNorms) * profile.norm_seconds_per_parameter;
  cost.room.memory = device.description.memory_limit;
  cost.room.largest_buffer = device.description.largest_buffer;
  cost.room.workspace = profile.workspace;
  cost.room.copy_bytes_per_parameter = profile.copy_bytes_per_parameter;
  return cost;
}

void AddShare(const AllowedDevice& device, const ModelShare& share, const std::vector<int>& sizes,
              const TrainingSpec& spec, const Cluster& cluster, DeviceCost& cost) {
  std::optional<ShareCost> measured = MeasuredCost(*device.device, sizes, WithShare(spec, share), cluster);
  if (!measured) return;
  // What was measured is a head by itself, which makes its logits once: three products. One that is shared makes them
  // again, for their gradients need the sum over the logits of all ranks.
  constexpr double kProductsOfSharedHead = 4, kProductsOfHead = 3;
  for (BlockTimes& times : measured->times)
    times.head.backward_seconds *= kProductsOfSharedHead / kProductsOfHead;
  measured->share = share;
  cost.shares.push_back(*std::move(measured));
}

void SetMemory(const std::string& kind, const Cluster& cluster, DeviceCost& cost) {
  const DeviceProfile* const profile = FindCopyProfile(cluster, kind);
  if (profile == nullptr) return;
  cost.fetch_bytes_per_second =
      profile->fetch_bytes_per_second / FactorOf(profile->corrections, TimeClass::kFetches);
  cost.store_bytes_per_second =
      profile->store_bytes_per_second / FactorOf(profile->corrections, TimeClass::kStores);
  cost.has_own_memory = profile->has_own_memory;
  cost.group_library = profile->group_library;
}

// With whatever was measured of whole blocks.
DeviceCost MakeDevice(const AllowedDevice& device, const std::vector<int>& sizes, const TrainingSpec& spec,
                      const Cluster& cluster) {
  DeviceCost cost;
  cost.name = device.name;
  cost.kind = device.device->kind;
  cost.price_per_hour = device.device->price_per_hour;
  cost.room.memory = device.device->description.memory_limit;
  cost.room.largest_buffer = device.device->description.largest_buffer;
  cost.activations = TypeOf(device.device->computes.For(spec.precision));
  if (std::optional<ShareCost> whole = MeasuredCost(*device.device, sizes, spec, cluster)) {
    cost.room = whole->room;
    cost.times = std::move(whole->times);
    cost.update_seconds_per_parameter = whole->update_seconds_per_parameter;
    cost.norm_seconds_per_parameter = whole->norm_seconds_per_parameter;
  }
  SetMemory(device.device->kind, cluster, cost);
  return cost;
}

// Nodes of one machine each say what it had available when they started: the least of that is there for all.
void SetHostMemory(const std::vector<AllowedDevice>& devices, std::vector<DeviceCost>& costs) {
  std::map<int, Bytes> least;
  for (size_t d = 0; d < devices.size(); ++d) {
    const Bytes said = devices[d].node->host_memory;
    if (said == Bytes{0}) continue;
    Bytes& known = least.emplace(costs[d].host, said).first->second;
    known = std::min(known, said);
  }
  for (DeviceCost& cost : costs) {
    const auto known = least.find(cost.host);
    if (known != least.end()) cost.host_memory = known->second;
  }
}

// Devices of a kind get the mean of their kind, rounded: what differs by noise alone is alike to the planner.
void AddSlowdowns(const std::vector<AllowedDevice>& devices, const Cluster& cluster, const std::string& shape,
                  std::vector<DeviceCost>& costs) {
  std::map<int, int> on_processor;
  for (const DeviceCost& cost : costs) ++on_processor[cost.processor];
  for (size_t d = 0; d < devices.size(); ++d) {
    if (on_processor[costs[d].processor] > 1) continue;
    const HostSlowdown* slowdown = FindSlowdown(cluster, HostOf(*devices[d].node), shape);
    if (slowdown == nullptr || slowdown->devices.size() < 2) continue;
    double sum = 0, sum_of_updates = 0, slowest = 1;
    int of_kind = 0;
    bool known = false;
    for (const SharedSlowdown& shared : slowdown->devices) {
      const double slower = std::max(1.0, shared.factor * FactorOf(shared.corrections, TimeClass::kPasses));
      const double of_updates =
          std::max(1.0, UpdateFactorOf(shared) * FactorOf(shared.corrections, TimeClass::kUpdates));
      slowest = std::max({slowest, slower, of_updates});
      known |= shared.device == costs[d].name;
      if (shared.device_kind != costs[d].kind) continue;
      sum += slower;
      sum_of_updates += of_updates;
      ++of_kind;
    }
    if (!known || of_kind == 0 || slowest < kLeastSlowdown) continue;
    const auto mean = [&](double of) {
      const double factor = std::round(100 * of / of_kind) / 100;
      return factor < kLeastSlowdown ? 1 : factor;
    };
    costs[d].shared_with = static_cast<int>(slowdown->devices.size()) - 1;
    costs[d].shared_slowdown = mean(sum);
    costs[d].shared_update_slowdown = mean(sum_of_updates);
  }
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

const HostSlowdown* FindSlowdown(const Cluster& cluster, const std::string& host, const std::string& shape) {
  const HostSlowdown* newest = nullptr;
  for (const HostSlowdown& slowdown : cluster.slowdowns) {
    if (slowdown.host != host || slowdown.shape != shape) continue;
    if (newest == nullptr || slowdown.measured_at_seconds >= newest->measured_at_seconds) newest = &slowdown;
  }
  return newest;
}

const DeviceProfile* FindCopyProfile(const Cluster& cluster, const std::string& kind) {
  const DeviceProfile* newest = nullptr;
  for (const DeviceProfile& profile : cluster.profiles) {
    if (profile.device_kind != kind || profile.fetch_bytes_per_second == 0) continue;
    if (newest == nullptr || profile.measured_at_seconds >= newest->measured_at_seconds) newest = &profile;
  }
  return newest;
}

std::string ShapeKey(const TrainingSpec& spec) {
  const ModelConfig& model = spec.shape.model;
  const std::string heads =
      model.family == ModelFamily::kLlama
          ? absl::StrCat(model.heads, ":", model.key_value_head_count(), "x", model.size_of_head())
      // Of a share of the heads their size does not follow from the other numbers.
      : model.heads * model.size_of_head() == model.hidden
          ? absl::StrCat(model.heads)
          : absl::StrCat(model.heads, "x", model.size_of_head());
  return absl::StrCat(FamilyOf(model).name, " hidden=", model.hidden, " heads=", heads,
                      " ff=", model.feed_forward, " vocabulary=", model.vocabulary,
                      " sequence=", spec.shape.sequence, " precision=", std::string(NameOf(spec.precision)),
                      spec.precision == Precision::kBf16 ? " activations=bf16" : "");
}

TrainingSpec WithShare(TrainingSpec spec, const ModelShare& share) {
  spec.shape.model = LocalModel(spec.shape.model, share);
  return spec;
}

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
