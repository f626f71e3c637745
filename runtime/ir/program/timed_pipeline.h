#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"

// Pipelines as far as the order of their passes is concerned: who computes what, for how long, and what he
// keeps meanwhile.
namespace medley {

// A stage of a route. Times are of one micro-batch. Of a unit that cannot make the two gradients apart (it
// recomputes), the input's takes the time of both, and the weights' none and keeps nothing.
struct TimedStage {
  UnitId unit;
  int chunk = 0;  // of the unit's ranges, by their place in the model
  double forward_seconds = 0;
  double input_gradient_seconds = 0;
  double weight_gradient_seconds = 0;
  double split_seconds = 0;    // of both, what they take more than a backward whole; at most the weights'
  double message_seconds = 0;  // to the next stage, and from there back; of the last: 0
  // What a micro-batch keeps on the unit, in units of the caller's choice (bytes; stashes): from the begin of
  // its forward to the end of its input's gradient, and from there to the end of its weights' gradient.
  double kept = 1;
  double deferred = 1;

  // At least, all backwards being whole.
  double work_seconds() const {
    return forward_seconds + input_gradient_seconds + weight_gradient_seconds - split_seconds;
  }
};

struct TimedRoute {
  std::vector<TimedStage> stages;
  int micro_batches = 0;
};

// Visits of a unit are numbered as VisitsOf does: by route, then by stage.
struct TimedPipeline {
  int units = 0;
  std::vector<TimedRoute> routes;
};

// The pipeline of a valid plan on units that are all alike: a block takes 1 a sequence for each of the three
// passes, and a message nothing. A micro-batch keeps 1 of each block and sequence until its last gradient.
TimedPipeline NominalPipeline(const Plan& plan);

// What each unit computes in a step at least, in seconds.
std::vector<double> WorkSeconds(const TimedPipeline& pipeline);
// That of the unit that computes longest: no step is shorter.
double LongestWorkSeconds(const TimedPipeline& pipeline);

}  // namespace medley
