#pragma once
#include <array>
#include <limits>
#include <vector>

#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"
#include "runtime/ir/model/model_share.h"

namespace medley {

// What a pipeline stage may run on: so many devices of one class and host that share the width of its blocks evenly.
struct StageKind {
  int device_class = 0;
  int degree = 1;
  std::vector<int> devices;        // of the problem, an example
  std::vector<ModelShare> shares;  // of its ranks
  // Of the slowest rank, with what the ranks sum within passes; `times` by size of the micro-batch.
  DeviceCost cost;
  // By size, as the ranks pass micro-batches with all rows each, and in sequence parallelism; those that there are.
  struct Passes {
    BlockTimes times;
    // Of a layer, by what is recomputed: what that takes, and what is kept.
    std::array<double, kRecomputes> layer_recompute_seconds;
    std::array<Bytes, kRecomputes> layer_kept;
    Bytes embedding_kept;
    // Of a layer, beside that, from the gradient of its input to that of its weights where these are passes of their own.
    Bytes layer_deferred;
  };
  std::array<std::vector<Passes>, 2> passes;
  // For all ranks to have what each received of an activation, by size.
  std::vector<double> gather_seconds;
  DeviceRoom room;  // of the first rank, whose share is the largest
  // Of host memory: the rates of copies, 0: not measured; an equal part of the host's memory, 0: not known; and bytes of one
  // layer's parameters, of the first rank.
  double fetch_bytes_per_second = 0, store_bytes_per_second = 0;
  Bytes host_memory, layer;

  const Passes& PassesOf(const UnitSaving& saving, int size) const {
    return passes[saving.sequence_parallel ? 1 : 0][size];
  }
  // A layer's parameters, to the device and from it.
  double FetchSeconds() const { return static_cast<double>(layer.value) / fetch_bytes_per_second; }
  double StoreSeconds() const { return static_cast<double>(layer.value) / store_bytes_per_second; }
};

// Whether stages of so many devices are planned by classes. Where these would share key-value heads they sum gradients
// among themselves, which times by classes do not have.
bool CanShareByClasses(const ModelConfig& model, int degree);

// Of each class, of one device and of as many of a host as can share the blocks' width and were measured so; `only_degree`: of that many
// alone, unless it is 0.
std::vector<StageKind> StageKindsOf(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                                    int only_degree);

// Which stages a table has, and what of.
struct TableScope {
  bool layers_on_hosts = false;  // they may live there
  // What no plan does sooner: copies take no time, for how far they overlap is not known, and messages what they take alone. Else
  // messages between hosts take what they do while the units that a host has room for send theirs.
  bool of_bounds = false;
  int most_routes = std::numeric_limits<int>::max();  // of which a host may have so many units
  // Under GPipe a unit keeps an equal part for so many routes of the batch.
  int least_routes = 1;
  int only_degree = 0;  // of all stages; 0: any
  // Of stages on the devices of one class: no more layers than that. -1: of none.
  int limited_class = -1, most_layers = 0;
};

// A stage of a route by what its time and memory depend on.
struct StageForm {
  int kind = 0;        // StageTimes::kinds
  int size = 0;        // index into PlanningProblem::micro_batch_sizes
  int layers = 1;      // 0: the embedding alone, or the head
  bool first = false;  // has the embedding
  // 1: the last of its route, with the head. Under 1F1B a unit of it has so many micro-batches under way at most.
  int from_end = 1;
  UnitSaving saving;
  int units = 1;  // that hold it side by side, and take micro-batches in turn
};

}  // namespace medley
