#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// What a plan is chosen for.
enum class Objective : uint8_t {
  kThroughput,  // the least time for a step
  kCost,        // the least price for all steps: of its devices, as long as they take
};

// What the plan of a job may be chosen from, and for what.
struct JobConstraints {
  std::vector<std::string> devices;    // "node/device"; empty: all there are
  std::vector<int> micro_batch_sizes;  // in sequences; empty: see CandidateMicroBatches
  // Each once, kListed being an order of passes that is made for plans found with the others. Empty: all that
  // are chosen from, but kListed only where the gradient of weights was measured by itself.
  std::vector<Schedule> schedules;
  std::optional<bool> post_validation;  // whether kListed may have it; none: where no gradients are clipped
  int max_routes = 0;                   // 0: any number
  int max_stages = 0;                   // 0: any number
  double most_price_per_hour = 0;       // of all devices that it uses together; 0: any
  int most_devices = 0;                 // that it uses; 0: any number
  Objective objective = Objective::kThroughput;
  double deadline_seconds = 0;  // that all steps of the job may take together; 0: none
  // The plan that the job names: then nothing is chosen, and the others are what this one is compared with.
  std::optional<Plan> plan;
  // Units of that plan that leave open what they store activations as: what their devices were measured with.
  std::vector<int> open_activations;
};

// Micro-batch sizes that the planner may choose from, ascending, each once: those of the constraints, or the
// powers of two up to 16 that divide the batch.
std::vector<int> CandidateMicroBatches(const JobConstraints& constraints, int batch_sequences);

}  // namespace medley
