#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/epoch_run.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/job/training_spec.h"

namespace medley {

// What one job's planning is based on: its spec, and the devices it may use.
struct MeasurementRequest {
  v1::JobSpec spec;
  TrainingSpec training;
  std::vector<ClusterDeviceLocation> devices;
};

// Makes sure that the profiles of all device kinds and the links of all pairs that `request` needs are in the store, measuring
// what is missing, one thing at a time so that nothing disturbs anything; then returns them as a cluster.
//
// Blocks, for seconds a device kind. `progress` hears what is being measured. `run` runs one epoch of tasks and lets it be
// aborted from outside.
// Errors: those of the tasks, naming the device; the store's; ResourceExhausted if every device is too small.
class Measurement {
 public:
  using RunEpoch = std::function<EpochEnd(std::vector<EpochTask>, const EpochRun::Callbacks&)>;
  Measurement(Store& store, RunEpoch run, std::function<void(const std::string&)> progress)
      : store_(store), run_(std::move(run)), progress_(std::move(progress)) {}

  struct Result {
    EpochEnd end;             // OK: `cluster` is complete
    v1::ClusterSpec cluster;  // without the devices that are too small for any part of the job
  };
  Result Complete(const MeasurementRequest& request);

 private:
  EpochEnd Profile(const MeasurementRequest& request, const ClusterDeviceLocation& device, const std::vector<int>& sizes);
  Result MeasureLinks(const MeasurementRequest& request);
  EpochEnd ProbeLink(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b);
  absl::StatusOr<v1::ClusterSpec> Collect(const MeasurementRequest& request);

  Store& store_;
  const RunEpoch run_;
  const std::function<void(const std::string&)> progress_;
};

// "node/device"
std::string FullName(const ClusterDeviceLocation& device);

}  // namespace medley
