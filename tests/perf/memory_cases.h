#pragma once
#include <string>
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// How a plan uses devices, whatever they are.
struct NamedPlan {
  std::string name;
  Plan plan;
};

// One plan of every kind over a model of four layers and a step of eight windows: one device, pipelines under
// every schedule, replicas, units that share tensors evenly and not, recomputing, a sharded optimizer, several
// ranges, routes that share units. All units store activations as `activations`; in some plans one of them as
// `other`.
std::vector<NamedPlan> PlansOfEveryKind(const TrainingShape& shape, Dtype activations, Dtype other);

}  // namespace medley
