#pragma once
#include <atomic>
#include <optional>

#include "coordinator/planner/classes/stage_table.h"
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

// The same of units of any number of devices that was measured, with whatever the problem allows to save memory.
bool FitsInMeasuredUnits(const PlanningProblem& problem, const std::atomic<bool>* stop = nullptr);

// How routes come nearest to fitting, of those that FitsInMeasuredUnits looks at.
struct NearestFit {
  // That each of their devices would have to have more for them to fit; at most 0: they fit.
  Bytes lacking;
  int device_class = 0;  // DeviceClassesOf, of the stage that lacks most
  int degree = 1;        // of all stages
  int routes = 1;
  int stages = 0;  // of each route
  // That lacks most, with what it needs least by. Its kind is one of a table of all classes with that degree alone, whose
  // least_routes are `routes`.
  StageForm stage;
};

// Those that lack least, to a thousandth of it. None: no device was measured, the constraints allow none, or it was stopped.
std::optional<NearestFit> NearestByClasses(const PlanningProblem& problem,
                                           const std::atomic<bool>* stop = nullptr);

// The fewest more devices of the class and in units of the degree of `nearest` with which routes fit, at most as many as there are of
// all; none: so many are not enough.
std::optional<int> MoreDevicesToFit(const PlanningProblem& problem, const NearestFit& nearest,
                                    const std::atomic<bool>* stop = nullptr);

}  // namespace medley
