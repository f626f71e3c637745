#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/link_measurement.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/problem/plan_report.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/model/model_share.h"

namespace medley {

// What one job's planning is based on: its spec, and the devices it may use.
struct MeasurementRequest {
  v1::JobSpec spec;
  TrainingSpec training;
  std::vector<ClusterDeviceLocation> devices;
  // SearchLimits::stop of what is searched to find out what has to be measured.
  const std::atomic<bool>* stop = nullptr;
};

// Makes sure that the profiles of all device kinds, what devices of a host do to each other, and the links of
// all kinds that `request` needs are in the store, measuring what is missing, so that nothing disturbs
// anything: devices one after another, then together as slowdown_measurement.h says, links as
// link_measurement.h says. Then returns them as a cluster, with its links as AddLinks has them. Where a micro-batch
// size is missing all sizes are measured, so that they are of one time. The share of the blocks' width that a
// pinned plan gives a device is measured like a model of another shape. What is much slower than it was
// before is measured once more, and then marked.
//
// Blocks, for seconds a device kind. `progress` hears what is being measured. `run` runs one attempt of tasks
// and lets it be aborted from outside; it is called from several threads at a time. Errors: those of the
// tasks, naming the device; the store's; ResourceExhausted if every device is too small.
class Measurement {
 public:
  using RunAttempt = LinkMeasurement::RunAttempt;
  Measurement(Store& store, RunAttempt run, std::function<void(const std::string&)> progress)
      : store_(store), run_(std::move(run)), progress_(std::move(progress)) {}

  struct Result {
    AttemptEnd end;                       // OK: `cluster` is complete
    Cluster cluster;                      // without the devices that are too small for any part of the job
    std::vector<LeftOutDevice> left_out;  // those
  };
  Result Complete(const MeasurementRequest& request);

  // The same without measuring: what is not in the store is missing in `cluster`.
  AttemptEnd Known(const MeasurementRequest& request, Cluster& cluster);

 private:
  struct Profiled {
    AttemptEnd end = {};
    DeviceProfile profile = {};
    double matmul_flops_per_second = 0;  // nothing is planned by it
  };
  // What a device is measured with.
  struct Passes {
    std::optional<ModelShare> share;  // of the blocks' width; none: whole blocks
    std::vector<int> micro_batch_sizes;
  };
  // Into the store, held against what was there before.
  AttemptEnd Profile(const MeasurementRequest& request, const ClusterDeviceLocation& device,
                     const Passes& passes);
  Profiled ProfileOnce(const MeasurementRequest& request, const ClusterDeviceLocation& device,
                       const Passes& passes);
  // Shares of the blocks' width that the planner can choose where nothing fits without, in `request`; the names of
  // the devices that have any, or whole blocks. None: something fits without.
  struct Shares {
    AttemptEnd end;
    bool needed = false;
    std::vector<std::string> usable;
  };
  Shares MeasureShares(const MeasurementRequest& request, const JobConstraints& constraints);
  // Those with which plans may be faster although something fits without; `known`: all else, to which they are added. A device that cannot
  // be measured so is passed over.
  AttemptEnd MeasureFasterShares(const MeasurementRequest& request, const JobConstraints& constraints,
                                 Cluster& known);
  // With micro-batches of `sizes`, and says so; `why`: for people, behind that.
  AttemptEnd ProfileMissing(const MeasurementRequest& request, const MissingProfile& what,
                            const std::vector<int>& sizes, const std::string& why = "");
  // What devices do to each other, and their links.
  Result MeasureTogether(const MeasurementRequest& request);

  Store& store_;
  const RunAttempt run_;
  const std::function<void(const std::string&)> progress_;
};

}  // namespace medley
