#include "coordinator/problem/device_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/problem/alike_hosts.h"
#include "coordinator/problem/known_profiles.h"
#include "runtime/ir/model/block_sizes.h"

namespace medley {
namespace {

// Less is what repeated measurements differ by.
constexpr double kLeastSlowdown = 1.02;

// The gradient of an embedding's weights is all that its backward does; the head puts nothing off.
BlockTimes TimesOf(const ProfiledTimes& times, const ModelConfig& model, int sequence,
                   const ProfileCorrections& corrections, double pace) {
  const double factor = pace * FactorOf(corrections, TimeClass::kPasses),
               of_recomputations = pace * FactorOf(corrections, TimeClass::kRecomputations);
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

double PaceFactor(const AllowedDevice& device, const TrainingSpec& spec, const Cluster& cluster) {
  const ProfileCorrection* const pace = PaceOf(device.name, device.device->kind, ShapeKey(spec), cluster);
  return pace == nullptr ? 1 : pace->factor;
}

// What was measured of a kind for the shape of `spec`, of a device with so much memory whose passes take `pace` times as long; none if a
// size is missing.
std::optional<ShareCost> MeasuredCost(const ClusterDevice& device, const std::vector<int>& sizes,
                                      const TrainingSpec& spec, const Cluster& cluster, double pace) {
  const std::string shape = ShapeKey(spec);
  ShareCost cost;
  for (const int size : sizes) {
    const ProfiledTimes* times = nullptr;
    const DeviceProfile* const newest = FindProfile(cluster, device.kind, shape, size, &times);
    if (newest == nullptr) return std::nullopt;
    if (times->workspace > Bytes{0}) cost.room.workspace_by_size.push_back({size, times->workspace});
    cost.times.push_back(TimesOf(*times, spec.shape.model, spec.shape.sequence, newest->corrections, pace));
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

}  // namespace

const ProfileCorrection* PaceOf(const std::string& device, const std::string& kind, const std::string& shape,
                                const Cluster& cluster) {
  const DeviceProfile* const profile = FindProfile(cluster, kind, shape, 0, nullptr);
  if (profile == nullptr) return nullptr;
  const auto known = profile->devices.find(device);
  return known == profile->devices.end() ? nullptr : &known->second;
}

void AddShare(const AllowedDevice& device, const ModelShare& share, const std::vector<int>& sizes,
              const TrainingSpec& spec, const Cluster& cluster, DeviceCost& cost) {
  std::optional<ShareCost> measured =
      MeasuredCost(*device.device, sizes, WithShare(spec, share), cluster, PaceFactor(device, spec, cluster));
  if (!measured) return;
  // What was measured is a head by itself, which makes its logits once: three products. One that is shared makes them
  // again, for their gradients need the sum over the logits of all ranks.
  constexpr double kProductsOfSharedHead = 4, kProductsOfHead = 3;
  for (BlockTimes& times : measured->times)
    times.head.backward_seconds *= kProductsOfSharedHead / kProductsOfHead;
  measured->share = share;
  cost.shares.push_back(*std::move(measured));
}

DeviceCost MakeDevice(const AllowedDevice& device, const std::vector<int>& sizes, const TrainingSpec& spec,
                      const Cluster& cluster) {
  DeviceCost cost;
  cost.name = device.name;
  cost.kind = device.device->kind;
  cost.price_per_hour = device.device->price_per_hour;
  cost.room.memory = device.device->description.memory_limit;
  cost.room.largest_buffer = device.device->description.largest_buffer;
  cost.activations = TypeOf(device.device->computes.For(spec.precision));
  const double pace = PaceFactor(device, spec, cluster);
  if (std::optional<ShareCost> whole = MeasuredCost(*device.device, sizes, spec, cluster, pace)) {
    cost.room = whole->room;
    cost.times = std::move(whole->times);
    cost.update_seconds_per_parameter = whole->update_seconds_per_parameter;
    cost.norm_seconds_per_parameter = whole->norm_seconds_per_parameter;
  }
  SetMemory(device.device->kind, cluster, cost);
  return cost;
}

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

void AddSlowdowns(const std::vector<AllowedDevice>& devices, const Cluster& cluster, const std::string& shape,
                  std::vector<DeviceCost>& costs) {
  std::vector<DeviceOnHost> on_hosts;
  for (const AllowedDevice& device : devices)
    on_hosts.push_back({HostOf(*device.node), device.name, device.device});
  const auto slowdowns = SlowdownsByDevice(on_hosts, cluster.slowdowns, shape);
  for (DeviceCost& cost : costs) {
    const auto slowdown = slowdowns.find(cost.name);
    if (slowdown == slowdowns.end()) continue;
    double slowest = 1;
    for (const auto& [kind, of] : slowdown->second->by_kind)
      slowest = std::max({slowest, of.factor * of.correction, of.update_factor * of.update_correction});
    if (slowest < kLeastSlowdown) continue;
    const auto rounded = [](double factor) {
      factor = std::round(100 * factor) / 100;
      return factor < kLeastSlowdown ? 1 : factor;
    };
    const KindSlowdown& of_kind = slowdown->second->by_kind.at(cost.kind);
    cost.shared_with = slowdown->second->devices - 1;
    cost.shared_slowdown = rounded(of_kind.factor * of_kind.correction);
    cost.shared_update_slowdown = rounded(of_kind.update_factor * of_kind.update_correction);
  }
}

}  // namespace medley
