#pragma once
#include <atomic>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// Whether routes of up to kMostStagesByClasses stages on `degree` devices of one class and host each fit the memory of the
// devices and what the constraints allow of stages, devices and their price, as far as planning by classes counts memory
// (stage_table.h): by one pipeline under 1F1B, or where `saves`, by several alike, too, whose stages do whatever the problem's devices can to need less. Of more devices a unit, a share of the width that was not
// measured takes no time, and its ops hold nothing. Takes time in proportion to devices, and looks at no times.
//
// Of stages with unlike devices two orders are looked at, those with the most memory first and last, and under a price
// the cheapest devices alone: false may be said of what would fit otherwise.
//
// `problem` must be valid (CheckProblem). `stop`, looked at often if it is not null: once it is true, anything. Pure.
bool FitsByClasses(const PlanningProblem& problem, int degree, bool saves,
                   const std::atomic<bool>* stop = nullptr);

}  // namespace medley
