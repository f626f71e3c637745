#include "coordinator/orchestrator/slowdown_measurement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/problem/processors.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unix_time.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

// Repetitions are no longer than this where a smaller micro-batch was measured, and there are so many of
// them.
constexpr double kLongestRepetitionSeconds = 0.25, kRepetitions = 12;
constexpr double kLeastSeconds = 0.4, kMostSeconds = 8;
// Bouts end when they agree like this, but not before so many, nor after so many and so long.
constexpr double kEnoughStandardError = 0.008;
constexpr int kFewestBouts = 3, kMostBouts = 9;
constexpr absl::Duration kMostTime = absl::Seconds(60);
// What is less says nothing.
constexpr double kLeastFactor = 1.01;
// Below this a step's length is not the devices' computing.
constexpr double kWorthMeasuringTwiceSeconds = 0.02;
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
  task.seconds = std::clamp(kRepetitions * repetition_seconds, kLeastSeconds, kMostSeconds);
  task.most_bouts = repetition_seconds >= kWorthMeasuringTwiceSeconds ? kMostBouts : 1;
  return task;
}

SharedFactor FactorOf(std::vector<double> ratios) {
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  };
  const double middle = median(ratios);
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::abs(ratio - middle));
  // As of a normal distribution: its deviation is 1.4826 times the median distance, and a median errs by 1.25
  // times as much as a mean. Of few bouts the distances are too small more often than not.
  const double count = static_cast<double>(ratios.size());
  SharedFactor result;
  result.spread = 1.4826 * median(distances) / middle;
  result.standard_error = ratios.size() < 2 ? 0 : 1.25 * result.spread / std::sqrt(count - 1);
  const bool surely_more = middle - 1 > 2 * result.standard_error * middle;
  result.factor = surely_more && middle >= kLeastFactor ? middle : 1;
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
  std::vector<ClusterDeviceLocation> kinds;  // the first of each
  for (const ClusterDeviceLocation& device : sharing.devices) {
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const ClusterDeviceLocation& other) {
      return other.device.kind == device.device.kind;
    });
    if (!known) kinds.push_back(device);
  }
  std::vector<std::string> names;
  for (const ClusterDeviceLocation& device : sharing.devices) names.push_back(FullName(device));
  progress_(absl::StrCat("measuring together ", absl::StrJoin(names, ", ")));

  const size_t count = sharing.devices.size();
  std::map<std::string, double> alone_seconds;  // by kind, of the bout
  std::vector<double> together_seconds(count, 0);
  const auto alone = [&]() -> AttemptEnd {
    for (const ClusterDeviceLocation& device : kinds) {
      Timed timed = Time(spec, {device}, task);
      if (!timed.end.status.ok()) return std::move(timed.end);
      alone_seconds[device.device.kind] = timed.times[0].blocks.layer.Seconds();
    }
    std::reverse(kinds.begin(), kinds.end());
    return {};
  };
  const auto together = [&]() -> AttemptEnd {
    Timed timed = Time(spec, sharing.devices, task);
    if (!timed.end.status.ok()) return std::move(timed.end);
    for (size_t d = 0; d < count; ++d) together_seconds[d] = timed.times[d].blocks.layer.Seconds();
    return {};
  };
  const absl::Time begin = Now();
  std::vector<std::vector<double>> ratios(count);  // of each device, a bout each
  const auto agree = [&] {
    return std::all_of(ratios.begin(), ratios.end(), [](const std::vector<double>& its) {
      return FactorOf(its).standard_error <= kEnoughStandardError;
    });
  };
  for (int bout = 0; bout < task.most_bouts; ++bout) {
    if (bout >= kFewestBouts && (agree() || Now() - begin > kMostTime)) break;
    // In turns, so that a speed that drifts counts for both.
    if (bout % 2 == 0) {
      if (AttemptEnd end = alone(); !end.status.ok()) return end;
    }
    if (AttemptEnd end = together(); !end.status.ok()) return end;
    if (bout % 2 == 1) {
      if (AttemptEnd end = alone(); !end.status.ok()) return end;
    }
    for (size_t d = 0; d < count; ++d) {
      const double seconds = alone_seconds[sharing.devices[d].device.kind];
      ratios[d].push_back(seconds > 0 ? together_seconds[d] / seconds : 1);
    }
  }

  HostSlowdown slowdown{.host = sharing.host, .shape = shape};
  for (size_t d = 0; d < count; ++d) {
    const SharedFactor factor = FactorOf(ratios[d]);
    slowdown.devices.push_back({.device = names[d],
                                .device_kind = sharing.devices[d].device.kind,
                                .factor = std::clamp(factor.factor, 1.0, 1000.0),
                                .spread = factor.spread});
  }
  slowdown.measured_at_seconds = UnixSecondsNow();
  slowdown.provenance = absl::StrFormat("layers of %d windows for %.1f s, alone and all at once, in %d bouts",
                                        task.micro_batch_sequences, task.seconds, ratios[0].size());
  return {.status = store_.PutHostSlowdown(EncodeSlowdown(slowdown))};
}

SlowdownMeasurement::Timed SlowdownMeasurement::Time(const v1::JobSpec& spec,
                                                     const std::vector<ClusterDeviceLocation>& devices,
                                                     const TogetherTask& task) {
  const absl::StatusOr<uint64_t> attempt = store_.NextAttempt();
  if (!attempt.ok()) return {.end = {.status = attempt.status()}};
  std::vector<AttemptTask> tasks;
  for (const ClusterDeviceLocation& device : devices) {
    AttemptTask& one =
        tasks.emplace_back(TaskOn(device, absl::StrCat("together/", *attempt, "/", tasks.size()), *attempt));
    v1::ProfileTask& profile = *one.request.mutable_profile();
    *profile.mutable_spec() = spec;
    profile.add_micro_batch_sizes(static_cast<uint32_t>(task.micro_batch_sequences));
    profile.set_together_seconds(task.seconds);
  }
  Mutex mutex;
  std::vector<std::optional<ProfiledTimes>> heard(devices.size());
  Timed timed;
  timed.end = run_(std::move(tasks), {.event = [&](int index, const v1::WorkerEvent& event) {
                     MutexLock lock(mutex);
                     if (event.has_profile() && event.profile().times_size() == 1)
                       heard[index] = DecodeTimes(event.profile().times(0));
                   }});
  if (!timed.end.status.ok()) return timed;
  for (size_t d = 0; d < devices.size(); ++d) {
    if (!heard[d])
      return {.end = {.status = absl::InternalError(
                          absl::StrCat(FullName(devices[d]), " ended without a profile"))}};
    timed.times.push_back(*std::move(heard[d]));
  }
  return timed;
}

}  // namespace medley
