#pragma once
#include "coordinator/predictor/cost_model.h"

namespace medley {

// What sums of gradients take at least in plans of so many replicas, whichever devices they are on and however their
// layers are cut.
//
// Of n holders on h hosts some host takes in 2 (h - 1) / h of the vector, for h - 1 messages bring each element together
// and as many others must hear of it. It comes by as many messages at a time as the host has cards, or as many as there
// are holders on it if that is less, each at no more than the greatest slope of any link between hosts. And some holder
// takes in the whole vector, from its host and from others at once. Predictions of sums over many holders look at
// samples of them and at one of each host, of which the same is said. Nothing is said where cards are not known.
class SumFloor {
 public:
  // `replicas`: of each layer at least; fewer than 2: nothing is summed.
  SumFloor(const PlanningProblem& problem, int replicas);

  // Whether there is anything to be said.
  bool knows() const { return seconds_per_byte_ > 0; }
  // Of sums of so many elements that a rank holds, one after another: one of each segment at most, and of a part of it
  // for each rank of other units. Scattering takes half of it, and gathering.
  double Seconds(double elements, int segments) const;

 private:
  double seconds_per_byte_ = 0;
  double level_bytes_ = 0;  // of a sum, that may come in no time
  double bytes_per_element_ = 0, most_parts_ = 1;
};

}  // namespace medley
