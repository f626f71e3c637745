#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

// How long messages take when nothing else is under way. Devices are indices into PlanningProblem::devices.
namespace medley {

// Seconds of one message: latency, then the bytes at the link's rate.
double TransferSeconds(const LinkCost& link, double bytes);

// Seconds of a ring all-reduce of a vector of `bytes` over `ring`, in this order: 2 (n - 1) rounds, each as long as
// its slowest link needs for bytes / n. Two devices: 2 latencies + bytes / all_reduce_bytes_per_second.
// 0 for fewer than two devices.
double AllReduceSeconds(const PlanningProblem& problem, const std::vector<int>& ring, double bytes);

// Seconds to sum a few scalars over `devices`: 2 (n - 1) times the worst latency between any two of them.
double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices);

}  // namespace medley
