#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/cluster.pb.h"

namespace medley {

// Probes links, one of each kind (link_pairs.h) or, where very many should be alike, some of them (link_samples.h), and
// puts them in the store.
//
// Links that have no machine in common are probed at the same time. Whether they disturb each other all the
// same, somewhere in the network, is tried: the slowest of those that were probed together is probed again
// alone, and if that is faster, so are all others of them.
class LinkMeasurement {
 public:
  // Runs one attempt of tasks, blocking; from several threads at a time.
  using RunAttempt = std::function<AttemptEnd(std::vector<AttemptTask>, const AttemptRun::Callbacks&)>;
  // `progress` hears what is being measured, from the thread that measures. `protection`: of the messages that are measured.
  LinkMeasurement(Store& store, RunAttempt run, std::function<void(const std::string&)> progress,
                  MessageProtection protection = MessageProtection::kNone)
      : store_(store), run_(std::move(run)), progress_(std::move(progress)), protection_(protection) {}

  enum class What { kMissing, kAll };
  // Blocks, for seconds a round of links. What was measured before an error is kept. Never has more than
  // kMostProbesTogether threads.
  // Errors: those of the tasks, naming the device; the store's; Internal, a probe ended without a sound
  // measurement.
  AttemptEnd Measure(const std::vector<ClusterDeviceLocation>& devices, What what);

 private:
  struct Probed {
    AttemptEnd end;
    v1::LinkProfile link;
  };
  // Adds what was measured to `known`.
  AttemptEnd MeasureRound(const std::vector<ClusterDeviceLocation>& devices,
                          const std::vector<DevicePair>& round, LinkTable& known);
  std::vector<Probed> ProbeTogether(const std::vector<ClusterDeviceLocation>& devices,
                                    const std::vector<DevicePair>& round);
  AttemptEnd ProbeAgainIfDisturbed(const std::vector<ClusterDeviceLocation>& devices,
                                   const std::vector<DevicePair>& round, std::vector<Probed>& probed);
  Probed Probe(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b);

  Store& store_;
  const RunAttempt run_;
  const std::function<void(const std::string&)> progress_;
  const MessageProtection protection_;
};

// A task on a device, without what it is to do.
AttemptTask TaskOn(const ClusterDeviceLocation& device, const std::string& task_id, uint64_t attempt);

}  // namespace medley
