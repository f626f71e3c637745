#pragma once
#include "absl/status/statusor.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// What a StepSimulator needs to simulate some ranks of a plan for all.
struct StandInSimulation {
  PlanningProblem problem;
  StandIns stand_ins;
};

// For a plan of hundreds or thousands of devices, which has few sets of routes that are not alike (AlikeRoutePredictor::KindOf). One
// of each kind is simulated, all of them together, with their whole programs: beside what AlikeRoutePredictor says this has
// a time for each instruction, and knows all that a unit may do with what it holds. Sums are as there, and as there messages
// of routes that are not simulated go when those of their kind do.
//
// `predictor` must outlive the result. InvalidArgument: a device is not in the problem, or two share a processor
// ("units[3]..."), which are simulated whole alone.
absl::StatusOr<StandInSimulation> SimulateByStandIns(AlikeRoutePredictor& predictor, const Plan& plan);

}  // namespace medley
