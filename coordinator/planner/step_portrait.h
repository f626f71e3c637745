#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/plan.h"

// What the length of a step is owed to. Ranks compute, sum gradients, send messages, exchange within their units and copy from and to host
// memory beside each other, and each hides behind what takes longer: nothing adds up to the step. So it is owed to what takes longest of these
// beside computing, if it takes longer than the busiest device computes; else to that device. Why a
// plan is slower than another is the same, but that where a device is the reason, what the others leave undone meanwhile is told, too: they idle,
// or are not used.
namespace medley {

// What the ranks of a unit sum and give each other within passes.
struct UnitExchange {
  UnitId unit;          // -1: every unit is one device
  std::string devices;  // "n/0+n/1"
  double seconds = 0;   // of a step, of the rank that waits least for the others
};

struct StepPortrait {
  StepPrediction prediction;
  int busiest = 0, idlest = 0;  // ranks
  double busiest_share = 0, idlest_share = 0;
  // Longest of a rank, in reductions of gradients that all holders are ready for.
  double reduction_seconds = 0;
  int slowest_sender = -1;  // rank whose messages take longest
  double message_seconds = 0;
  UnitExchange longest_exchange;
  int longest_copier = -1;  // rank that copies longest between its device and host memory, one way
  double copy_seconds = 0;
};

// Takes one simulation. Errors as PredictStep's.
absl::StatusOr<StepPortrait> PortraitOf(const PlanningProblem& problem, const Plan& plan);

// The device, the link, the reductions, the exchanges or the copies that the step waits for, for people.
std::string BottleneckOf(const StepPortrait& portrait);

// Why the step takes longer than the one chosen, for people; or that it does not.
std::string WhySlower(const PlanningProblem& problem, const StepPortrait& portrait, double chosen_seconds);

}  // namespace medley
