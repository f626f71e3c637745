#pragma once
#include <vector>

#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What a rank does on its host in the collectives of its slices: its own steps, with its holders' places as members.
struct SliceSchedules {
  std::vector<CollectiveSchedule> sums;     // parallel to the program's slices
  std::vector<CollectiveSchedule> gathers;  // of parameters, likewise; empty if no slice has shares
};

// `reductions` have been checked against the plan; slices without one: an even ring.
SliceSchedules SchedulesOf(const StepProgram& program, const std::vector<ReductionChoice>& reductions);

}  // namespace medley
