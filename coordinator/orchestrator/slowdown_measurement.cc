#include "coordinator/orchestrator/slowdown_measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/problem/alike_hosts.h"
#include "runtime/base/counted.h"
#include "runtime/base/mutex.h"
#include "runtime/base/quantile.h"
#include "runtime/base/unix_time.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

// Repetitions are no longer than this where a smaller micro-batch allows it, and a turn has room for so many.
constexpr double kLongestRepetitionSeconds = 0.05, kRepetitions = 5;
constexpr double kLeastTurnSeconds = 0.05, kMostTurnSeconds = 2;
// Below this a step's length is not the devices' computing, and a few rounds do.
constexpr double kWorthMeasuringSeconds = 0.01;
constexpr int kFewRounds = 12, kManyRounds = 48;
constexpr double kMostSeconds = 60;
// What is less says nothing.
constexpr double kLeastFactor = 1.002;
constexpr double kMostFactor = 1000;
// Layers that a repetition is of.
constexpr double kLayers = 2;

// How many of hosts that are alike are to be measured in all.
int WantedOf(const std::optional<MakeUpSlowdown>& known) {
  if (!known) return kFewestHosts;
  if (known->hosts >= kFewestHosts && known->agree) return known->hosts;
  int wanted = kFewestHosts;
  while (wanted <= known->hosts) wanted *= 2;
  return std::min(wanted, kMostHosts);
}

std::vector<std::string> NamesOf(const SharingDevices& sharing) {
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : sharing.devices) names.push_back(FullName(device));
  return names;
}

}  // namespace

std::vector<SharingDevices> HostsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                           absl::Span<const HostSlowdown> known, const std::string& shape,
                                           const std::set<std::string>& failed) {
  std::vector<DeviceOnHost> on_hosts;
  std::map<std::string, const ClusterDeviceLocation*> by_name;
  for (const ClusterDeviceLocation& device : devices) {
    on_hosts.push_back({device.host.empty() ? device.node : device.host, FullName(device), &device.device});
    by_name[on_hosts.back().name] = &device;
  }
  const MeasuredHosts measured(known, shape);
  struct Alike {
    std::vector<SharingDevices> others;  // that were not measured
    int failed = 0;
  };
  std::map<MakeUp, Alike> by_make_up;
  for (const auto& [host, beside] : DevicesBesideEachOther(on_hosts)) {
    if (measured.Covers(host, beside)) continue;
    Alike& alike = by_make_up[measured.MakeUpOf(host, beside)];
    if (failed.contains(host)) {
      ++alike.failed;
      continue;
    }
    SharingDevices& sharing = alike.others.emplace_back(SharingDevices{.host = host});
    for (const DeviceOnHost& device : beside) sharing.devices.push_back(*by_name.at(device.name));
  }
  std::vector<SharingDevices> wanted;
  for (auto& [make_up, alike] : by_make_up) {
    const std::optional<MakeUpSlowdown> of_alike = measured.Find(make_up);
    const int missing = WantedOf(of_alike) - (of_alike ? of_alike->hosts : 0) - alike.failed;
    const size_t count = alike.others.size(), more = std::min<size_t>(std::max(missing, 0), count);
    for (size_t i = 0; i < more; ++i) wanted.push_back(std::move(alike.others[i * count / more]));
  }
  if (wanted.size() > kMostHostsTogether) wanted.resize(kMostHostsTogether);
  return wanted;
}

TogetherTask TogetherTaskFor(const SharingDevices& sharing, const Cluster& cluster,
                             const std::string& shape) {
  std::map<int, double> slowest;  // layer's seconds by micro-batch
  for (const DeviceProfile& profile : cluster.profiles) {
    const bool takes_part = std::any_of(
        sharing.devices.begin(), sharing.devices.end(),
        [&](const ClusterDeviceLocation& device) { return device.device.kind == profile.device_kind; });
    if (!takes_part || profile.shape != shape) continue;
    for (const ProfiledTimes& times : profile.times) {
      double& seconds = slowest[times.micro_batch_sequences];
      seconds = std::max(seconds, times.blocks.layer.Seconds());
    }
  }
  TogetherTask task;
  double repetition_seconds = 0;
  for (const auto& [size, layer_seconds] : slowest) {
    if (repetition_seconds > 0 && kLayers * layer_seconds > kLongestRepetitionSeconds) break;
    task.micro_batch_sequences = size;
    repetition_seconds = kLayers * layer_seconds;
  }
  // One that was not measured takes about its part.
  while (task.micro_batch_sequences > 1 && repetition_seconds > kLongestRepetitionSeconds) {
    repetition_seconds *= static_cast<double>(task.micro_batch_sequences / 2) / task.micro_batch_sequences;
    task.micro_batch_sequences /= 2;
  }
  task.turn_seconds = std::clamp(kRepetitions * repetition_seconds, kLeastTurnSeconds, kMostTurnSeconds);
  const int rounds = repetition_seconds >= kWorthMeasuringSeconds ? kManyRounds : kFewRounds;
  const double turns = static_cast<double>(sharing.devices.size()) + 1;
  task.seconds = std::min(rounds * turns * task.turn_seconds, kMostSeconds);
  return task;
}

SharedFactor FactorOf(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  const double middle = Median(ratios);
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::abs(ratio - middle));
  // As of a normal distribution: its deviation is 1.4826 times the median distance, and a median errs by 1.25
  // times as much as a mean. Of few rounds the distances are too small more often than not.
  const double count = static_cast<double>(ratios.size());
  SharedFactor result;
  result.spread = 1.4826 * Median(distances) / middle;
  const double error = ratios.size() < 2 ? 0 : 1.25 * result.spread * middle / std::sqrt(count - 1);
  // What is little beside its error is mostly error: it counts for as much as it surely is.
  const double more = middle - 1;
  const double factor = more > 0 ? 1 + more * more * more / (more * more + error * error) : 1;
  result.factor = factor >= kLeastFactor ? factor : 1;
  return result;
}

AttemptEnd SlowdownMeasurement::Measure(const v1::JobSpec& spec, const std::string& shape,
                                        const std::vector<ClusterDeviceLocation>& devices,
                                        const Cluster& cluster) {
  std::vector<HostSlowdown> known = cluster.slowdowns;
  std::set<std::string> failed;
  while (true) {
    const std::vector<SharingDevices> hosts = HostsToMeasure(devices, known, shape, failed);
    if (hosts.empty()) return {};
    AttemptEnd end;
    for (Measured& measured : MeasureRound(spec, shape, hosts, cluster)) {
      const HostSlowdown& slowdown = measured.slowdown;
      if (absl::IsResourceExhausted(measured.end.status)) {
        progress_(absl::StrCat(
            "devices of ", slowdown.host,
            " are not measured together, and go by hosts like it: ", measured.end.status.message()));
        failed.insert(slowdown.host);
        continue;
      }
      if (!measured.end.status.ok()) {
        if (end.status.ok()) end = std::move(measured.end);
        continue;
      }
      if (measured.rounds == 0) {
        progress_(absl::StrCat("not all devices of ", slowdown.host,
                               " said how much they slow each other down: they count as not doing so"));
      }
      if (const absl::Status stored = store_.PutHostSlowdown(EncodeSlowdown(slowdown)); !stored.ok())
        return EndOfStore(stored);
      // As the store does, whatever the clock says.
      std::erase_if(known, [&](const HostSlowdown& older) {
        return older.host == slowdown.host && older.shape == slowdown.shape;
      });
      known.push_back(slowdown);
    }
    if (!end.status.ok()) return end;
  }
}

std::vector<SlowdownMeasurement::Measured> SlowdownMeasurement::MeasureRound(
    const v1::JobSpec& spec, const std::string& shape, const std::vector<SharingDevices>& hosts,
    const Cluster& cluster) {
  std::vector<std::string> names;
  for (const SharingDevices& host : hosts) names.push_back(absl::StrJoin(NamesOf(host), ", "));
  progress_(absl::StrCat("measuring together ", absl::StrJoin(names, "; ")));
  const double now_seconds = UnixSecondsNow();
  std::vector<Measured> measured(hosts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < hosts.size(); ++i) {
    threads.emplace_back(
        [&, i] { measured[i] = MeasureHost(spec, hosts[i], TogetherTaskFor(hosts[i], cluster, shape)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < hosts.size(); ++i) {
    measured[i].slowdown.host = hosts[i].host;
    measured[i].slowdown.shape = shape;
    measured[i].slowdown.measured_at_seconds = now_seconds;
  }
  return measured;
}

SlowdownMeasurement::Measured SlowdownMeasurement::MeasureHost(const v1::JobSpec& spec,
                                                               const SharingDevices& sharing,
                                                               const TogetherTask& task) {
  const absl::StatusOr<uint64_t> attempt = store_.NextAttempt();
  if (!attempt.ok()) return {.end = EndOfStore(attempt.status())};
  const size_t count = sharing.devices.size();
  std::vector<AttemptTask> tasks;
  for (size_t d = 0; d < count; ++d) {
    AttemptTask& one =
        tasks.emplace_back(TaskOn(sharing.devices[d], absl::StrCat("together/", *attempt, "/", d), *attempt));
    v1::ProfileTask& profile = *one.request.mutable_profile();
    *profile.mutable_spec() = spec;
    profile.add_micro_batch_sizes(static_cast<uint32_t>(task.micro_batch_sequences));
    profile.set_together_seconds(task.seconds);
    profile.set_turn_seconds(task.turn_seconds);
    profile.set_devices_of_host(static_cast<uint32_t>(count));
    profile.set_place_on_host(static_cast<uint32_t>(d));
  }
  Mutex mutex;
  std::vector<v1::SharedTurns> heard(count);  // an agent of an older version says nothing of turns
  AttemptEnd end = run_(std::move(tasks), {.event = [&](int index, const v1::WorkerEvent& event) {
                          MutexLock lock(mutex);
                          if (event.has_shared_turns()) heard[index] = event.shared_turns();
                        }});
  if (!end.status.ok()) return {.end = std::move(end)};

  Measured measured{.rounds = std::numeric_limits<int>::max()};
  const std::vector<std::string> names = NamesOf(sharing);
  for (size_t d = 0; d < count; ++d) {
    const v1::SharedTurns& turns = heard[d];
    const SharedFactor passes = FactorOf({turns.pass_ratios().begin(), turns.pass_ratios().end()});
    const SharedFactor updates = FactorOf({turns.update_ratios().begin(), turns.update_ratios().end()});
    measured.slowdown.devices.push_back({.device = names[d],
                                         .device_kind = sharing.devices[d].device.kind,
                                         .factor = std::min(passes.factor, kMostFactor),
                                         .update_factor = std::min(updates.factor, kMostFactor),
                                         .spread = passes.spread});
    measured.rounds = std::min(measured.rounds, turns.pass_ratios_size());
  }
  measured.slowdown.provenance = absl::StrFormat(
      "layers of %s, alone and all at once in turns of %.2f s, in %s",
      Counted(task.micro_batch_sequences, "window"), task.turn_seconds, Counted(measured.rounds, "round"));
  return measured;
}

}  // namespace medley
