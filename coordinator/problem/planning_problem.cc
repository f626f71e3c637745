#include "coordinator/problem/planning_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/problem/processors.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/link/link_model.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/family.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/link_codec.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

// Less is what repeated measurements differ by.
constexpr double kLeastSlowdown = 1.02;

struct ClusterDevice {
  std::string name;  // "node/device"
  const v1::Node* node = nullptr;
  const v1::Device* device = nullptr;
};

absl::StatusOr<std::vector<ClusterDevice>> DevicesOf(const TrainingSpec& spec,
                                                     const v1::ConstraintSpec& constraints,
                                                     const v1::ClusterSpec& cluster) {
  std::set<std::string> nodes, names;
  std::vector<std::string> refused;
  bool emulated = false;
  const std::set<std::string> wanted(constraints.devices().begin(), constraints.devices().end());
  std::vector<ClusterDevice> devices;
  for (const v1::Node& node : cluster.nodes()) {
    if (!nodes.insert(node.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("nodes: \"", node.name(), "\" is there twice"));
    }
    for (const v1::Device& device : node.devices()) {
      const std::string name = absl::StrCat(node.name(), "/", device.name());
      if (!names.insert(name).second) {
        return absl::InvalidArgumentError(absl::StrCat("nodes: device \"", name, "\" is there twice"));
      }
      if (device.memory_bytes() == 0) {
        return absl::InvalidArgumentError(absl::StrCat("nodes: device \"", name, "\" has no memory_bytes"));
      }
      if (!wanted.empty() && wanted.count(name) == 0) continue;
      if (device.emulated() && !spec.allow_emulated) {
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
const v1::DeviceProfile* FindProfile(const v1::ClusterSpec& cluster, const std::string& kind,
                                     const std::string& shape, int micro_batch,
                                     const v1::BlockPassTimes** times) {
  const v1::DeviceProfile* newest = nullptr;
  for (const v1::DeviceProfile& profile : cluster.profiles()) {
    if (profile.device_kind() != kind || profile.shape() != shape) continue;
    if (newest != nullptr && profile.measured_at_seconds() < newest->measured_at_seconds()) continue;
    for (const v1::BlockPassTimes& candidate : profile.times()) {
      if (micro_batch != 0 && candidate.micro_batch_sequences() != static_cast<uint32_t>(micro_batch))
        continue;
      newest = &profile;
      if (times != nullptr) *times = &candidate;
    }
  }
  return newest;
}

std::vector<MissingProfile> Missing(const std::vector<ClusterDevice>& devices, const std::vector<int>& sizes,
                                    const std::string& shape, const v1::ClusterSpec& cluster) {
  std::set<std::string> seen;
  std::vector<MissingProfile> missing;
  for (const ClusterDevice& device : devices) {
    if (!seen.insert(device.device->kind()).second) continue;
    MissingProfile entry{device.device->kind(), device.name, {}};
    for (const int size : sizes) {
      if (FindProfile(cluster, entry.device_kind, shape, size, nullptr) == nullptr) {
        entry.micro_batch_sizes.push_back(size);
      }
    }
    if (!entry.micro_batch_sizes.empty()) missing.push_back(std::move(entry));
  }
  return missing;
}

absl::Status MissingError(const std::vector<MissingProfile>& missing, const std::string& shape) {
  std::vector<std::string> parts;
  for (const MissingProfile& entry : missing) {
    parts.push_back(absl::StrCat("\"", entry.device_kind, "\" (", entry.device, ") with micro-batches of ",
                                 absl::StrJoin(entry.micro_batch_sizes, ", ")));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no profile for shape \"", shape, "\" of device kind ", absl::StrJoin(parts, "; ")));
}

// The gradient of an embedding's weights is all that its backward does; the head puts nothing off.
BlockTimes DecodeTimes(const v1::BlockPassTimes& times, const ModelConfig& model, int sequence,
                       double factor) {
  double layer_weights_seconds = times.layer_weight_gradient_seconds();
  if (layer_weights_seconds <= 0) {
    const BlockWork work = WorkOf(model, 1, times.micro_batch_sequences(), sequence);
    layer_weights_seconds =
        times.layer_backward_seconds() * work.weight_gradient.flops / work.backward().flops;
  }
  const double embedding_seconds = factor * times.embedding_backward_seconds();
  return {{factor * times.embedding_forward_seconds(), embedding_seconds, embedding_seconds},
          {factor * times.layer_forward_seconds(), factor * times.layer_backward_seconds(),
           factor * std::min(layer_weights_seconds, times.layer_backward_seconds())},
          {factor * times.head_forward_seconds(), factor * times.head_backward_seconds(), 0}};
}

Bytes DecodeBytes(uint64_t value) {
  return {static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()))};
}

// All profiles are there.
DeviceCost MakeDevice(const ClusterDevice& device, const std::vector<int>& sizes, const TrainingSpec& spec,
                      const v1::ClusterSpec& cluster) {
  const std::string shape = ShapeKey(spec);
  DeviceCost cost;
  cost.name = device.name;
  cost.kind = device.device->kind();
  cost.memory = DecodeBytes(device.device->memory_bytes());
  cost.activations = ActivationsOf(spec.precision, device.device->computes_bf16());
  for (const int size : sizes) {
    const v1::BlockPassTimes* times = nullptr;
    const v1::DeviceProfile& newest = *FindProfile(cluster, cost.kind, shape, size, &times);
    cost.times.push_back(DecodeTimes(*times, spec.shape.model, spec.shape.sequence,
                                     newest.has_correction() ? newest.correction().factor() : 1));
  }
  const v1::DeviceProfile& profile = *FindProfile(cluster, cost.kind, shape, 0, nullptr);
  cost.update_seconds_per_parameter = profile.update_seconds_per_parameter();
  cost.norm_seconds_per_parameter = profile.norm_seconds_per_parameter();
  cost.workspace = DecodeBytes(profile.workspace_bytes());
  cost.copy_bytes_per_parameter = profile.copy_bytes_per_parameter();
  return cost;
}

// Devices of a kind get the mean of their kind, rounded: what differs by noise alone is alike to the planner.
void AddSlowdowns(const std::vector<ClusterDevice>& devices, const v1::ClusterSpec& cluster,
                  const std::string& shape, std::vector<DeviceCost>& costs) {
  std::map<int, int> on_processor;
  for (const DeviceCost& cost : costs) ++on_processor[cost.processor];
  for (size_t d = 0; d < devices.size(); ++d) {
    if (on_processor[costs[d].processor] > 1) continue;
    const v1::HostSlowdown* slowdown = FindSlowdown(cluster, HostOf(*devices[d].node), shape);
    if (slowdown == nullptr || slowdown->devices_size() < 2) continue;
    double sum = 0, slowest = 1;
    int of_kind = 0;
    bool known = false;
    for (const v1::SharedSlowdown& shared : slowdown->devices()) {
      const double slower = std::max(1.0, shared.factor() * CorrectionOf(shared));
      slowest = std::max(slowest, slower);
      known |= shared.device() == costs[d].name;
      if (shared.device_kind() != costs[d].kind) continue;
      sum += slower;
      ++of_kind;
    }
    if (!known || of_kind == 0 || slowest < kLeastSlowdown) continue;
    const double factor = std::round(100 * sum / of_kind) / 100;
    costs[d].shared_with = slowdown->devices_size() - 1;
    costs[d].shared_slowdown = factor < kLeastSlowdown ? 1 : factor;
  }
}

absl::Status CheckLink(const std::string& field, const v1::LinkProfile& link) {
  const absl::Status status = DecodeLink(link).status();
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat(field, ".", status.message()));
}

absl::Status CheckLinks(const v1::ClusterSpec& cluster) {
  for (int i = 0; i < cluster.links_size(); ++i) {
    RETURN_IF_ERROR(CheckLink(absl::StrCat("links[", i, "]"), cluster.links(i)));
  }
  return CheckLink("default_link", cluster.default_link());
}

absl::StatusOr<LinkCost> FindLink(const v1::ClusterSpec& cluster, const std::string& a,
                                  const std::string& b) {
  const v1::LinkProfile* newest = nullptr;
  for (const v1::LinkProfile& link : cluster.links()) {
    const bool joins = (link.a() == a && link.b() == b) || (link.a() == b && link.b() == a);
    if (joins && (newest == nullptr || link.measured_at_seconds() >= newest->measured_at_seconds()))
      newest = &link;
  }
  if (newest == nullptr && cluster.has_default_link()) newest = &cluster.default_link();
  if (newest == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no link between \"", a, "\" and \"", b, "\", and no default_link"));
  }
  return DecodeLink(*newest);
}

absl::StatusOr<PlanConstraints> DecodeConstraints(const v1::ConstraintSpec& constraints) {
  PlanConstraints result;
  result.max_routes = static_cast<int>(constraints.max_routes());
  result.max_stages = static_cast<int>(constraints.max_stages());
  if (constraints.schedules_size() == 0) return result;
  result.schedules.clear();
  for (const int number : constraints.schedules()) {
    ASSIGN_OR_RETURN(const Schedule schedule, DecodeSchedule(static_cast<v1::Schedule>(number)));
    if (std::count(result.schedules.begin(), result.schedules.end(), schedule) == 0)
      result.schedules.push_back(schedule);
  }
  return result;
}

}  // namespace

const v1::HostSlowdown* FindSlowdown(const v1::ClusterSpec& cluster, const std::string& host,
                                     const std::string& shape) {
  const v1::HostSlowdown* newest = nullptr;
  for (const v1::HostSlowdown& slowdown : cluster.slowdowns()) {
    if (slowdown.host() != host || slowdown.shape() != shape) continue;
    if (newest == nullptr || slowdown.measured_at_seconds() >= newest->measured_at_seconds())
      newest = &slowdown;
  }
  return newest;
}

double CorrectionOf(const v1::SharedSlowdown& slowdown) {
  return slowdown.has_correction() ? slowdown.correction().factor() : 1;
}

std::string HostOf(const v1::Node& node) { return node.host().empty() ? node.name() : node.host(); }

std::string ShapeKey(const TrainingSpec& spec) {
  const ModelConfig& model = spec.shape.model;
  const std::string heads =
      model.family == ModelFamily::kLlama
          ? absl::StrCat(model.heads, ":", model.key_value_head_count(), "x", model.size_of_head())
          : absl::StrCat(model.heads);
  return absl::StrCat(FamilyOf(model).name, " hidden=", model.hidden, " heads=", heads,
                      " ff=", model.feed_forward, " vocabulary=", model.vocabulary,
                      " sequence=", spec.shape.sequence,
                      " precision=", spec.precision == Precision::kBf16 ? "bf16 activations=bf16" : "f32");
}

v1::ConstraintSpec EffectiveConstraints(const v1::JobSpec& spec) {
  if (!spec.has_plan()) return spec.constraints();
  v1::ConstraintSpec constraints;
  for (const v1::Unit& unit : spec.plan().units()) {
    for (const std::string& device : unit.devices()) *constraints.add_devices() = device;
  }
  for (const int size : CandidateMicroBatches(spec))
    constraints.add_micro_batch_sizes(static_cast<uint32_t>(size));
  // What is not chosen by itself is compared with all that is.
  if (spec.plan().schedule() != v1::SCHEDULE_UNSPECIFIED &&
      spec.plan().schedule() != v1::SCHEDULE_ZERO_BUBBLE_H1) {
    constraints.add_schedules(spec.plan().schedule());
  }
  return constraints;
}

absl::Status EmulatedRefusal(const std::string& field, const std::vector<std::string>& devices) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", absl::StrJoin(devices, ", "), devices.size() == 1 ? " is" : " are",
                   " emulated and would compute nothing; a rehearsal says allow_emulated: true"));
}

absl::StatusOr<std::vector<std::string>> AllowedDevices(const TrainingSpec& spec,
                                                        const v1::ConstraintSpec& constraints,
                                                        const v1::ClusterSpec& cluster) {
  ASSIGN_OR_RETURN(const std::vector<ClusterDevice> devices, DevicesOf(spec, constraints, cluster));
  std::vector<std::string> names;
  for (const ClusterDevice& device : devices) names.push_back(device.name);
  return names;
}

absl::StatusOr<std::vector<MissingProfile>> MissingProfiles(const TrainingSpec& spec,
                                                            const v1::ConstraintSpec& constraints,
                                                            const v1::ClusterSpec& cluster) {
  ASSIGN_OR_RETURN(const std::vector<ClusterDevice> devices, DevicesOf(spec, constraints, cluster));
  const std::vector<int> sizes = CandidateMicroBatches(constraints, spec.shape.global_batch_sequences);
  return Missing(devices, sizes, ShapeKey(spec), cluster);
}

absl::StatusOr<PlanningProblem> MakeProblem(const TrainingSpec& spec, const v1::ConstraintSpec& constraints,
                                            const v1::ClusterSpec& cluster) {
  ASSIGN_OR_RETURN(const std::vector<ClusterDevice> devices, DevicesOf(spec, constraints, cluster));
  RETURN_IF_ERROR(CheckLinks(cluster));
  PlanningProblem problem;
  problem.shape = spec.shape;
  problem.precision = spec.precision;
  problem.micro_batch_sizes = CandidateMicroBatches(constraints, spec.shape.global_batch_sequences);
  ASSIGN_OR_RETURN(problem.constraints, DecodeConstraints(constraints));
  problem.forced_all_reduce = spec.communication.all_reduce;
  problem.wire_bytes_per_element = spec.communication.gradient_wire == Precision::kBf16 ? 2 : 4;

  const std::string shape = ShapeKey(spec);
  const std::vector<MissingProfile> missing = Missing(devices, problem.micro_batch_sizes, shape, cluster);
  if (!missing.empty()) return MissingError(missing, shape);

  std::vector<HeldCores> cores;
  for (const ClusterDevice& device : devices) {
    problem.devices.push_back(MakeDevice(device, problem.micro_batch_sizes, spec, cluster));
    const v1::Node& node = *device.node;
    cores.push_back(
        {node.host().empty() ? absl::StrCat("node ", node.name()) : absl::StrCat("host ", node.host()),
         {device.device->cores().begin(), device.device->cores().end()}});
  }
  const std::vector<int> processors = SharedProcessors(cores);
  const size_t count = devices.size();
  problem.links.assign(count, std::vector<LinkCost>(count));
  std::map<std::string, int> hosts;
  for (size_t a = 0; a < count; ++a) {
    problem.devices[a].processor = processors[a];
    problem.devices[a].host = hosts.emplace(cores[a].host, static_cast<int>(hosts.size())).first->second;
    for (size_t b = 0; b < a; ++b) {
      ASSIGN_OR_RETURN(problem.links[a][b], FindLink(cluster, devices[a].name, devices[b].name));
      problem.links[b][a] = problem.links[a][b];
    }
  }
  AddSlowdowns(devices, cluster, shape, problem.devices);
  return problem;
}

}  // namespace medley
