#pragma once
#include <limits>
#include <utility>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"

// For tests: devices whose passes take whole seconds, and plans for them, so that what a step takes can be told by hand.
namespace medley {

inline constexpr double kInstant = std::numeric_limits<double>::infinity();

// Messages of n bytes take latency + n / rate, and rounds of a reduction latency + n / all_reduce_rate.
LinkCost Link(double latency_seconds, double rate, double all_reduce_rate);

// Devices "d0", "d1", ... alike: embedding and head take nothing, a layer 1 s forward and 2 s backward.
// Messages take nothing unless a test says so.
PlanningProblem Uniform(int devices, int layers, int micro_batches);

inline constexpr double kMessageBytes = 4.0 * 8 * 4;  // of Uniform

// `problem`, whose first devices have been measured with `shares` too, each taking the given part of whole blocks' times.
PlanningProblem Shared(PlanningProblem problem, const std::vector<std::pair<ModelShare, double>>& shares);

PlanningProblem WithHeads(PlanningProblem problem, int heads);

// One route through d0, d1, ..., each of which holds the blocks from the end of the one before to its own of `ends`.
Plan Pipeline(const std::vector<int>& ends, int micro_batches, Schedule schedule);

// d0, d1, ... hold all blocks, each with a route of its own of so many micro-batches.
Plan Replicas(int blocks, const std::vector<int>& micro_batches);

}  // namespace medley
