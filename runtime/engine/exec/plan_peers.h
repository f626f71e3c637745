#pragma once
#include <vector>

#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The ranks that a rank exchanges messages with in a training under `plan`, ascending: connections with others are not
// needed. `train`: the rank's step program. Who names a rank is named by it. They are
//  - those at the other ends of its programs' messages, and the other ranks of its unit;
//  - neighbours in the schedules of its gradients' slices, and in the tree by which a slice's holders bring their devices
//    together;
//  - neighbours in the tree by which all ranks sum scalars and agree on how they exchange;
//  - where the job writes checkpoints and the plan shards the optimizer, those who write what it holds, and the holders of
//    what it writes.
// So a rank has as many as its part of the plan needs, a number that grows with the logarithm of the ranks, but for writers.
std::vector<int> PlanPeers(const Plan& plan, const StepProgram& train, const TrainingSpec& spec,
                           const std::vector<ReductionChoice>& reductions);

}  // namespace medley
