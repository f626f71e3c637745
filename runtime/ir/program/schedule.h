#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/timed_pipeline.h"

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
// Other schedules become one of these (ScheduleOrders). None for kListed.
UnitOrder OrderOf(Schedule schedule, StageId stage, int stages, int micro_batches);

// The passes of every unit of `pipeline` under `schedule`, which is not kListed.
//
// Where routes pass every unit once, each unit's are OrderOf its stage; of schedules that are for more, the
// one that they become then: interleaved 1F1B is 1F1B, interleaved GPipe is GPipe, and ZB-V is ZB-H1.
//
// Otherwise all orders follow from one simulation with the pipeline's times: whoever is free takes the pass
// that is ready first, and of several the one that comes first in the schedule's view.
//   1F1B, ZB-H1, GPipe  gradients before forwards, weights' gradients last, later stages before earlier ones.
//          With 1F1B at most stages - stage micro-batches of a visit are alive, with ZB-H1 at most stages; with
//          GPipe a unit's backwards come after its forwards.
//   interleaved 1F1B    groups of as many micro-batches as the route has units go through range after range,
//          forwards before backwards; at most 2 (units - place - 1) + (ranges - 1) units + 1 forwards of a unit
//          are in flight, `place` being its own on the route; should all units wait for each other, one more
//          is. Where it is published, as published, whatever the times (interleaved_order.h). Where a route
//          does not go through its units in the same turn again and again, it is 1F1B.
//   interleaved GPipe   all micro-batches go through a unit's first range, then through its second, and back:
//          of a unit's ranges, one is in use at a time (Zorse).
//   ZB-V   for routes that go through the units and back, two ranges each: gradients in two, forwards before
//          gradients, later stages first, at most stages - stage micro-batches of a visit alive until their
//          weights' gradients, so that every unit keeps what 1F1B's first keeps (Qi et al. 2023, section 6;
//          theirs is drawn by hand for stages that are all alike, this one follows the times).
std::vector<UnitOrder> ScheduleOrders(Schedule schedule, const TimedPipeline& pipeline);

// The order in which `unit` of a valid plan, passed as `visits` say (VisitsOf), runs one step.
//
// Where routes pass every unit once and the plan lists no orders, what a pass needs is taken in just before
// it. Otherwise all units' passes are placed in the time of the nominal pipeline (timed_pipeline.h), and
// messages are taken in in the order in which they are sent there. So every op comes after all that it needs
// at one and the same moment of all units, and no unit waits for ever, even if a message needs both ends at
// once. Where a plan lists orders, times are Unit::paces; without those, where routes share units, such that all units compute for as long.
UnitOrder OrderOfUnit(const Plan& plan, UnitId unit, const Visits& visits);

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
// brings its own bound, on which the planner's proofs rest; of those that it does not choose from, what the
// stage computes.
double LeastPassesSeconds(Schedule schedule, const StageWork& stage);

}  // namespace medley
