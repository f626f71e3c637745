#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/last_backwards.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/plan.h"

// A plan of hundreds of devices as a few groups of stages: the units at one place in all sets of routes of a kind, which do the same at
// the same times, so that one simulated set tells of all. What is left of a step behind the passes, sums, norms and updates, is asked
// of groups.
namespace medley {

// A unit of all sets of routes of one kind.
struct StageGroup {
  // A range of its blocks, in the last micro-batch that passes it.
  struct Range {
    BlockRange blocks;
    double last_backward_seconds = 0;
    std::vector<double> backward_before_seconds = {0};  // of the blocks before each of them
    std::vector<double> forward_seconds;                // of one micro-batch, of each block
  };

  const Unit* unit = nullptr;        // of the first set
  std::vector<int> devices;          // the first rank's of each set's unit
  std::vector<Range> ranges;         // parallel to the unit's
  int ranks_on_host = 1;             // of each unit, on that of the first one
  int sequences = 0;                 // of its largest micro-batches
  UnitId first_unit = 0;             // of the plan's that it has
  double last_backward_seconds = 0;  // of all ranges
  double norm_seconds_per_parameter = 0, update_seconds_per_parameter = 0;
  int64_t parameters = 0;  // of a rank
  // Of layers that live in host memory: how many there are, and what one's parameters take to the device and from it.
  int layers_on_host = 0;
  double fetch_seconds = 0, store_seconds = 0;

  int degree() const { return static_cast<int>(unit->devices.size()); }
  // When the last backward has gone through the segments from `segment` on, and they can be summed.
  double CompleteSeconds(const ModelConfig& model, SegmentId segment) const;
  // Of what it counts of norms, where it computes so long for them; `sums`: with others.
  double NormSeconds(double computing_seconds, bool sums) const;
  // Where it has such a part of the optimizer's state of what it holds.
  double UpdateSeconds(double own_part) const;
  // All of it is so much later.
  void Delay(double seconds);
};

// Of one kind of sets, from `first` on; and those that each of its routes passes, front to back, by their ranges.
struct GroupsOfKind {
  struct Stage {
    int group, range;
  };
  int first = 0, end = 0;
  std::vector<std::vector<Stage>> routes;
};

struct StageGroups {
  std::vector<StageGroup> all;
  std::vector<GroupsOfKind> kinds;
};

// A set of routes by itself, and what was simulated of it.
struct SimulatedSet {
  Plan set;               // PartOfPlan
  PlanningProblem alone;  // RoutesAlone, of its ranks one after another
  LastBackwardsOfUnits last_backwards;
};

// Adds the groups of some sets of routes of `plan`, all of one kind, the first of which was simulated. `devices_of_unit`: of each unit of
// the plan. InvalidArgument: a device was not measured so.
absl::Status AddGroups(const Plan& plan, const std::vector<std::vector<int>>& devices_of_unit,
                       const std::vector<std::vector<int>>& sets, const SimulatedSet& first,
                       StageGroups& groups);

}  // namespace medley
