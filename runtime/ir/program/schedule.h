#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/plan/unit_op.h"

namespace medley {

// The passes of stage `stage` of `stages` in one step of `micro_batches`, each stage being a unit of its own.
// The order is data, so that it is tested without devices, threads or time. Passes of one kind always run in
// the order of the micro-batches.
//   1F1B   warms up with forwards, alternates, drains: at most stages - stage micro-batches are alive at
//          once.
//   GPipe  all forwards, then all backwards: all micro-batches are alive at once.
//   ZB-H1  1F1B whose weight gradients come up to `stage` micro-batches later than the gradients of the
//          input, in time that would have been waiting: at most `stages` micro-batches are alive at once (Qi
//          et al. 2023, "Zero Bubble Pipeline Parallelism").
std::vector<UnitOp> OrderOf(Schedule schedule, StageId stage, int stages, int micro_batches);

// The order in which `unit` of a valid plan, passed as `visits` say (VisitsOf), runs one step.
//
// Where routes pass every unit once, it is that of OrderOf, and what a pass needs is taken in just before it.
// Otherwise all units' orders follow from one simulation in which a block takes 1 a sequence forward and 1
// for each gradient, and a message nothing: whoever is free takes the pass that is ready first, gradients
// before forwards, weights' gradients last, and later stages before earlier ones. With 1F1B at most stages -
// stage micro-batches of a visit are alive, with ZB-H1 at most stages; with GPipe a unit's backwards come
// after its forwards. Messages are taken in in the order in which they are sent there. So every op comes
// after all that it needs at one and the same moment of all units, and no unit waits for ever, even if a
// message needs both ends at once.
std::vector<UnitOp> OrderOfUnit(const Plan& plan, UnitId unit, const Visits& visits);

// A stage as far as its schedule is concerned. Times are of one micro-batch.
struct StageWork {
  int micro_batches = 1;
  int from_end = 1;  // 1: the last stage of its route
  double forward_seconds = 0, backward_seconds = 0;
  double message_seconds = 0;     // to the next stage; 0 on the last
  double round_trip_seconds = 0;  // from its forward's begin to its backward's end, what follows it included
};

// Seconds from the arrival of the first micro-batch until the stage's last backward has ended, at least, in
// the order that OrderOf gives it: no simulation of a plan with such a stage ends earlier. Every schedule
// brings its own bound, on which the planner's proofs rest.
double LeastPassesSeconds(Schedule schedule, const StageWork& stage);

}  // namespace medley
