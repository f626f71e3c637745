#include "coordinator/orchestrator/slowdown_measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/problem/processors.h"
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

std::string HostOf(const ClusterDeviceLocation& device) {
  return device.host.empty() ? device.node : device.host;
}

bool Covers(const HostSlowdown& known, const std::vector<ClusterDeviceLocation>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](const ClusterDeviceLocation& device) {
    return std::any_of(known.devices.begin(), known.devices.end(), [&](const SharedSlowdown& shared) {
      return shared.device == FullName(device) && shared.device_kind == device.device.kind;
    });
  });
}

}  // namespace

std::vector<SharingDevices> DevicesToMeasureTogether(const std::vector<ClusterDeviceLocation>& devices,
                                                     absl::Span<const HostSlowdown> known,
                                                     const std::string& shape) {
  std::vector<HeldCores> cores;
  for (const ClusterDeviceLocation& device : devices) {
    HeldCores& held = cores.emplace_back(HeldCores{.host = HostOf(device)});
    for (const int core : device.device.description.cores) held.cores.push_back(static_cast<uint32_t>(core));
  }
  const std::vector<int> processors = SharedProcessors(cores);
  std::map<std::string, std::vector<ClusterDeviceLocation>> by_host;
  for (size_t d = 0; d < devices.size(); ++d) {
    const bool own_cores = std::count(processors.begin(), processors.end(), processors[d]) == 1;
    if (own_cores && !devices[d].device.emulated) by_host[HostOf(devices[d])].push_back(devices[d]);
  }
  std::vector<SharingDevices> sharing;
  for (auto& [host, its] : by_host) {
    const bool measured =
        std::any_of(known.begin(), known.end(), [&, h = host](const HostSlowdown& slowdown) {
          return slowdown.host == h && slowdown.shape == shape && Covers(slowdown, by_host[h]);
        });
    if (its.size() >= 2 && !measured) sharing.push_back({host, its});
  }
  return sharing;
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
  for (const SharingDevices& sharing : DevicesToMeasureTogether(devices, cluster.slowdowns, shape)) {
    const AttemptEnd end = MeasureHost(spec, shape, sharing, TogetherTaskFor(sharing, cluster, shape));
    if (absl::IsResourceExhausted(end.status)) {
      progress_(absl::StrCat("devices of ", sharing.host,
                             " count as not slowing each other down: ", end.status.message()));
      continue;
    }
    if (!end.status.ok()) return end;
  }
  return {};
}

AttemptEnd SlowdownMeasurement::MeasureHost(const v1::JobSpec& spec, const std::string& shape,
                                            const SharingDevices& sharing, const TogetherTask& task) {
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : sharing.devices) names.push_back(FullName(device));
  progress_(absl::StrCat("measuring together ", absl::StrJoin(names, ", ")));
  const absl::StatusOr<uint64_t> attempt = store_.NextAttempt();
  if (!attempt.ok()) return EndOfStore(attempt.status());
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
  if (!end.status.ok()) return end;

  HostSlowdown slowdown{.host = sharing.host, .shape = shape};
  int rounds = std::numeric_limits<int>::max();
  for (size_t d = 0; d < count; ++d) {
    const v1::SharedTurns& turns = heard[d];
    const SharedFactor passes = FactorOf({turns.pass_ratios().begin(), turns.pass_ratios().end()});
    const SharedFactor updates = FactorOf({turns.update_ratios().begin(), turns.update_ratios().end()});
    slowdown.devices.push_back({.device = names[d],
                                .device_kind = sharing.devices[d].device.kind,
                                .factor = std::min(passes.factor, kMostFactor),
                                .update_factor = std::min(updates.factor, kMostFactor),
                                .spread = passes.spread});
    rounds = std::min(rounds, turns.pass_ratios_size());
  }
  if (rounds == 0)
    progress_(absl::StrCat("not all of ", absl::StrJoin(names, ", "),
                           " said how much they slow each other down: they count as not doing so"));
  slowdown.measured_at_seconds = UnixSecondsNow();
  slowdown.provenance = absl::StrFormat("layers of %s, alone and all at once in turns of %.2f s, in %s",
                                        Counted(task.micro_batch_sequences, "window"), task.turn_seconds,
                                        Counted(rounds, "round"));
  return EndOfStore(store_.PutHostSlowdown(EncodeSlowdown(slowdown)));
}

}  // namespace medley
