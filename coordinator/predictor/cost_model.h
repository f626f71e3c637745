#pragma once
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/model/model_config.h"
#include "runtime/plan/plan.h"
#include "runtime/tensor/dtype.h"

// What is known about a cluster and a job when a plan is predicted or chosen: measurements, no opinions. One value holds
// everything, so that a problem can be saved and replayed.
namespace medley {

struct PassTimes {
  double forward_seconds = 0;
  double backward_seconds = 0;
};

// Of one block of each kind, for one micro-batch of a given size.
struct BlockTimes {
  PassTimes embedding, layer, head;
};

struct DeviceCost {
  std::string name;                  // "node/device"
  std::string kind;                  // devices of equal kind have equal times; for people, and for symmetry
  int processor = 0;                 // devices with the same processor compute on the same cores and slow each other down
  Bytes memory;                      // limit
  std::vector<BlockTimes> times;     // parallel to PlanningProblem::micro_batch_sizes
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  Bytes workspace;                   // that the ops hold beside what the memory model counts
  double copy_bytes_per_parameter = 0;  // packed or converted copies that the ops keep
};

// One way between two devices, both ways alike.
struct LinkCost {
  double latency_seconds = 0;
  double bytes_per_second = 1e18;
  double all_reduce_bytes_per_second = 1e18;  // of a ring all-reduce over these two: vector bytes / time
};

struct PlanConstraints {
  std::vector<Schedule> schedules = {Schedule::kOneForwardOneBackward, Schedule::kGPipe};  // allowed; not empty
  int max_routes = 0;               // 0: any number
  int max_stages = 0;               // 0: any number
};

struct PlanningProblem {
  TrainingShape shape;
  Precision precision = Precision::kF32;
  std::vector<int> micro_batch_sizes;           // candidates, ascending; each divides the global batch
  std::vector<DeviceCost> devices;
  std::vector<std::vector<LinkCost>> links;     // [device][device]; the diagonal is not used
  PlanConstraints constraints;
};

}  // namespace medley
