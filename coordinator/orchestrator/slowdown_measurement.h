#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/link_measurement.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/cluster/host_slowdown.h"

namespace medley {

// Devices of one machine that may slow each other down: real ones, each on cores of its own.
struct SharingDevices {
  std::string host;                            // HostSlowdown.host
  std::vector<ClusterDeviceLocation> devices;  // two or more
};

// Those of `devices` that `known` of `shape` does not have together, each under its kind. Pure.
std::vector<SharingDevices> DevicesToMeasureTogether(const std::vector<ClusterDeviceLocation>& devices,
                                                     absl::Span<const HostSlowdown> known,
                                                     const std::string& shape);

// How devices of a host are measured beside each other: in turns, alone and all at once (HostTurns).
struct TogetherTask {
  int micro_batch_sequences = 1;
  double turn_seconds = 0, seconds = 0;
};
// By the profiles of `shape` that `cluster` has of the devices' kinds: the largest measured micro-batch whose
// repetitions are short, or a part of the smallest, some of which a turn has room for, and for so many rounds that they agree. Pure.
TogetherTask TogetherTaskFor(const SharingDevices& sharing, const Cluster& cluster, const std::string& shape);

// What rounds say of a device: how many times as long it took together as alone just before or after.
struct SharedFactor {
  double factor = 1;  // their median, nearer to 1 the less sure that is
  double spread = 0;  // of one round, relative
};
// No ratios: 1. Pure.
SharedFactor FactorOf(std::vector<double> ratios);

// Measures how much the devices of each host slow each other down, and puts it in the store.
class SlowdownMeasurement {
 public:
  using RunAttempt = LinkMeasurement::RunAttempt;
  // `progress` hears what is being measured, from the thread that measures.
  SlowdownMeasurement(Store& store, RunAttempt run, std::function<void(const std::string&)> progress)
      : store_(store), run_(std::move(run)), progress_(std::move(progress)) {}

  // All devices of a host at once, which take turns by its clock. `cluster` has the profiles that the times are chosen
  // by. Blocks, for up to a minute a host. Where a block does not fit a device, or an agent is too old to take turns, the
  // host's devices count as not slowing each other down. Other errors: those of the tasks, naming the device; the store's.
  AttemptEnd Measure(const v1::JobSpec& spec, const std::string& shape,
                     const std::vector<ClusterDeviceLocation>& devices, const Cluster& cluster);

 private:
  AttemptEnd MeasureHost(const v1::JobSpec& spec, const std::string& shape, const SharingDevices& sharing,
                         const TogetherTask& task);

  Store& store_;
  const RunAttempt run_;
  const std::function<void(const std::string&)> progress_;
};

}  // namespace medley
