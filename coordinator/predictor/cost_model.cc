#include "coordinator/predictor/cost_model.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/ir/model/block_sizes.h"

namespace medley {

bool SameCostAnywhere(const DeviceCost& a, const DeviceCost& b) {
  return a.kind == b.kind && a.room == b.room && a.activations == b.activations &&
         a.update_seconds_per_parameter == b.update_seconds_per_parameter &&
         a.norm_seconds_per_parameter == b.norm_seconds_per_parameter &&
         a.shared_slowdown == b.shared_slowdown && a.shared_update_slowdown == b.shared_update_slowdown &&
         a.shared_with == b.shared_with && a.cores == b.cores &&
         a.fetch_bytes_per_second == b.fetch_bytes_per_second &&
         a.store_bytes_per_second == b.store_bytes_per_second && a.host_memory == b.host_memory &&
         a.price_per_hour == b.price_per_hour && a.network_cards == b.network_cards && a.times == b.times;
}

bool SameCost(const DeviceCost& a, const DeviceCost& b) {
  return a.site == b.site && a.rack == b.rack && SameCostAnywhere(a, b);
}

bool ComputesOnCores(const DeviceCost& device) { return device.cores > 0; }

double SlowdownBeside(const DeviceCost& device, double shared, int others) {
  if (device.shared_with <= 0) return 1;
  return 1 + (shared - 1) * std::min(others, device.shared_with) / device.shared_with;
}

int DevicesOnHostOf(const PlanningProblem& problem, const DeviceCost& device) {
  if (device.host < 0) return 1;
  return static_cast<int>(std::count_if(problem.devices.begin(), problem.devices.end(),
                                        [&](const DeviceCost& other) { return other.host == device.host; }));
}

double HostBytesFor(const PlanningProblem& problem, const DeviceCost& device) {
  if (device.host_memory == Bytes{0}) return std::numeric_limits<double>::infinity();
  return static_cast<double>(device.host_memory.value) / DevicesOnHostOf(problem, device);
}

double PricePerHour(const PlanningProblem& problem, const Plan& plan) {
  const std::vector<std::string> names = DevicesOf(plan);
  const std::set<std::string> used(names.begin(), names.end());
  double price_per_hour = 0;
  for (const DeviceCost& device : problem.devices)
    if (used.contains(device.name)) price_per_hour += device.price_per_hour;
  return price_per_hour;
}

std::string ConstraintObjection(const PlanningProblem& problem, const Plan& plan) {
  const PlanConstraints& allowed = problem.constraints;
  size_t stages = 0;
  for (const Route& route : plan.routes) stages = std::max(stages, route.units.size());
  const auto objection = [](const char* field, const auto& allows, const auto& has) {
    return absl::StrCat("constraints.", field, " allows ", allows, ", and it has ", has);
  };
  if (allowed.max_routes > 0 && plan.routes.size() > static_cast<size_t>(allowed.max_routes))
    return objection("max_routes", allowed.max_routes, plan.routes.size());
  if (allowed.max_stages > 0 && stages > static_cast<size_t>(allowed.max_stages))
    return objection("max_stages", allowed.max_stages, stages);
  const size_t devices = DevicesOf(plan).size();
  if (allowed.most_devices > 0 && devices > static_cast<size_t>(allowed.most_devices))
    return objection("most_devices", allowed.most_devices, devices);
  const double price_per_hour = allowed.most_price_per_hour > 0 ? PricePerHour(problem, plan) : 0;
  if (!allowed.Allow(/*devices=*/0, price_per_hour))
    return objection("most_price_per_hour", allowed.most_price_per_hour, price_per_hour);
  const std::vector<Schedule>& schedules = allowed.schedules;
  const bool is_allowed = plan.schedule == Schedule::kListed ? allowed.synthesised_orders
                                                             : std::find(schedules.begin(), schedules.end(),
                                                                         plan.schedule) != schedules.end();
  if (is_allowed) return "";
  std::vector<std::string> names;
  for (const Schedule schedule : schedules) names.push_back(NameOf(schedule));
  return objection("schedules", absl::StrJoin(names, ", "), NameOf(plan.schedule));
}

const DeviceCost* FindDevice(const PlanningProblem& problem, const std::string& name) {
  for (const DeviceCost& device : problem.devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

std::unordered_map<std::string, int> DevicesByName(const PlanningProblem& problem) {
  std::unordered_map<std::string, int> device_by_name;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d)
    device_by_name.emplace(problem.devices[d].name, d);
  return device_by_name;
}

PlanningProblem OnDevices(const PlanningProblem& problem, const std::vector<int>& devices) {
  PlanningProblem result{.shape = problem.shape,
                         .precision = problem.precision,
                         .micro_batch_sizes = problem.micro_batch_sizes,
                         .site_names = problem.site_names,
                         .links = problem.links.Among(devices),
                         .constraints = problem.constraints,
                         .forced_all_reduce = problem.forced_all_reduce,
                         .wire_bytes_per_element = problem.wire_bytes_per_element,
                         .charges_least_scatters = problem.charges_least_scatters,
                         .device_memory = problem.device_memory,
                         .message_protection = problem.message_protection};
  for (const int d : devices) result.devices.push_back(problem.devices[d]);
  if (problem.ways) result.ways = problem.ways->Among(devices);
  return result;
}

std::optional<RankCosts> CostsOf(const DeviceCost& device, const ModelConfig& model,
                                 const ModelShare& share) {
  if (share == WholeModel(model)) {
    if (device.times.empty()) return std::nullopt;
    return RankCosts{device.room, device.times, device.update_seconds_per_parameter,
                     device.norm_seconds_per_parameter};
  }
  const ModelShare wanted = AtOrigin(share);
  for (const ShareCost& cost : device.shares) {
    if (cost.share != wanted) continue;
    return RankCosts{cost.room, cost.times, cost.update_seconds_per_parameter,
                     cost.norm_seconds_per_parameter};
  }
  return std::nullopt;
}

std::map<int, std::vector<int>> DevicesByHost(const PlanningProblem& problem,
                                              const std::vector<int>& devices) {
  std::map<int, std::vector<int>> by_host;
  for (const int d : devices) by_host[HostOf(problem, d)].push_back(d);
  return by_host;
}

std::vector<int> PlacesByHost(const PlanningProblem& problem) {
  const int devices = static_cast<int>(problem.devices.size());
  struct Host {
    int end, first, devices = 0;
  };
  std::unordered_map<int, Host> hosts;
  for (int d = 0; d < devices; ++d) {
    Host& host = hosts.try_emplace(HostOf(problem, d), Host{problem.links.EndOf(d), d}).first->second;
    host.end = std::min(host.end, problem.links.EndOf(d));
    ++host.devices;
  }
  const auto place = [&](int device) {
    const Host& host = hosts.at(HostOf(problem, device));
    return std::tuple(host.end, -host.devices, host.first, device);
  };
  std::vector<int> in_order(devices), places(devices);
  std::iota(in_order.begin(), in_order.end(), 0);
  std::sort(in_order.begin(), in_order.end(), [&](int a, int b) { return place(a) < place(b); });
  for (int place = 0; place < devices; ++place) places[in_order[place]] = place;
  return places;
}

std::vector<LinkedDevices> KindsOfLinks(const PlanningProblem& problem) {
  std::vector<int> all(problem.devices.size());
  std::iota(all.begin(), all.end(), 0);
  return KindsOfLinks(problem, all);
}

std::vector<LinkedDevices> KindsOfLinks(const PlanningProblem& problem, const std::vector<int>& devices) {
  std::map<int, std::map<int, std::vector<int>>> examples;  // by end and host, two of them at most
  for (const int d : devices) {
    std::vector<int>& known = examples[problem.links.EndOf(d)][HostOf(problem, d)];
    if (known.size() < 2) known.push_back(d);
  }
  std::vector<LinkedDevices> kinds;
  for (auto end = examples.begin(); end != examples.end(); ++end) {
    for (auto other_end = end; other_end != examples.end(); ++other_end) {
      // All links between two ends are alike, but for whether they leave the host.
      for (const auto& [host, a] : end->second) {
        const auto b = other_end->second.find(host);
        if (b == other_end->second.end() || a.front() == b->second.back()) continue;
        kinds.push_back({a.front(), b->second.back(), /*within_host=*/true});
        break;
      }
      // Any host but the other end's only one has a neighbour there.
      for (const auto& [host, a] : end->second) {
        auto other = other_end->second.begin();
        if (other->first == host) ++other;
        if (other == other_end->second.end()) continue;
        kinds.push_back({a.front(), other->second.back(), /*within_host=*/false});
        break;
      }
    }
  }
  return kinds;
}

double RecomputeSeconds(const ModelConfig& model, int64_t sequences, int64_t sequence, const PassTimes& layer,
                        Recompute recompute) {
  if (recompute == Recompute::kNone) return 0;
  const double measured =
      recompute == Recompute::kLayers ? layer.recompute_seconds : layer.recompute_but_attention_seconds;
  if (measured > 0) return measured;
  return layer.forward_seconds * RecomputedShare(model, sequences, sequence, recompute);
}

}  // namespace medley
