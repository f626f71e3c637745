#pragma once
#include <cstddef>
#include <functional>
#include <set>
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

// Of hosts with the same kinds of devices (alike_hosts.h) so many are measured at first, spread over their names; while
// these do not agree twice as many, up to kMostHosts.
inline constexpr int kFewestHosts = 3, kMostHosts = 12;

// The hosts whose devices are to be measured next, kMostHostsTogether of them at most; none: what is known is enough. To be asked
// again when they have been. `failed`: hosts that could not be measured; no others take their place. Pure.
inline constexpr size_t kMostHostsTogether = 32;
std::vector<SharingDevices> HostsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                           absl::Span<const HostSlowdown> known, const std::string& shape,
                                           const std::set<std::string>& failed = {});

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

// Measures how much the devices of a host slow each other down, on some of the hosts that are alike, and puts it in the
// store.
class SlowdownMeasurement {
 public:
  using RunAttempt = LinkMeasurement::RunAttempt;
  // `progress` hears what is being measured, from the thread that measures.
  SlowdownMeasurement(Store& store, RunAttempt run, std::function<void(const std::string&)> progress)
      : store_(store), run_(std::move(run)), progress_(std::move(progress)) {}

  // All devices of a host at once, which take turns by its clock, and the hosts of a round (HostsToMeasure) at the same time,
  // for they do not disturb each other. `cluster` has the profiles that the times are chosen by, and what is known. Blocks, for
  // up to a minute a round. Where a block does not fit a device the host goes by those that are like it; where an agent
  // is too old to take turns its host's devices count as not slowing each other down. Other errors: those of the tasks, naming
  // the device; the store's. What was measured before an error is kept.
  AttemptEnd Measure(const v1::JobSpec& spec, const std::string& shape,
                     const std::vector<ClusterDeviceLocation>& devices, const Cluster& cluster);

 private:
  struct Measured {
    AttemptEnd end;
    HostSlowdown slowdown;
    int rounds = 0;  // that all of its devices told of
  };
  std::vector<Measured> MeasureRound(const v1::JobSpec& spec, const std::string& shape,
                                     const std::vector<SharingDevices>& hosts, const Cluster& cluster);
  Measured MeasureHost(const v1::JobSpec& spec, const SharingDevices& sharing, const TogetherTask& task);

  Store& store_;
  const RunAttempt run_;
  const std::function<void(const std::string&)> progress_;
};

}  // namespace medley
