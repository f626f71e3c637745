#pragma once
#include <cstdint>
#include <optional>

#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

// Every plan of a small problem with every way to save memory, for tests and benchmarks.
namespace medley {

// RandomProblem with so little memory that few plans fit.
PlanningProblem TightProblem(uint64_t seed, const RandomProblemOptions& options);

// With several layers, of which most of the memory is: up to a share of what all on one device needs.
PlanningProblem DeepProblem(uint64_t seed, int most_devices, double most_memory);

// Copies between the devices and hosts, of a layer about as long as its passes; on some hosts too little memory for
// all layers.
void AddCopies(uint64_t seed, PlanningProblem& problem);

// What all combinations of what units recompute, of where their layers live, and of whether and by which weights they
// share the optimizer's state, make of every plan of a small problem that does not fit as it is.
struct EveryWay {
  std::optional<double> least_seconds;  // of those that fit, with weights as OptimizerSharding finds them
  std::optional<double> least_plain_seconds;  // of those that save nothing
  Plan best;
  bool any_fits = false;  // with whatever weights of 0 to 2
  bool complete = true;
  int64_t combinations = 0;
};
// Looks at no more than `most_plans` plans, each in every way.
EveryWay TryEveryWay(const PlanningProblem& problem, int64_t most_plans);

}  // namespace medley
