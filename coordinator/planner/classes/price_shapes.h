#pragma once
#include <optional>
#include <vector>

#include "coordinator/planner/classes/route_shape.h"

namespace medley {

// The route that is worth most at given prices of devices, by a dynamic programme over its stages from the last to
// the first. What a route does by a time falls with its slowest stage, whose time is asked for, and with the sum of
// what a micro-batch takes on its way; the latter adds up stage by stage, as do the prices of the devices.
class ShapePricing {
 public:
  // All of routes with micro-batches of one size and at most so many stages.
  ShapePricing(StageTable& table, int size, int most_stages);

  struct Question {
    double most_pass_seconds = 0;   // of a stage: forward and backward of one micro-batch
    double seconds = 0;             // of the whole step, without what follows the last backward
    std::vector<double> price;      // in sequences, of a device of each class
    std::vector<int> most_devices;  // of each class
  };
  struct Answer {
    RouteShape shape;
    double worth = 0;  // sequences, less the prices
  };
  // None: no route has stages as short as that and fits the memory.
  std::optional<Answer> Best(const Question& question) const;

  // Every time that a stage may take, ascending, each at least `ratio` times the one before.
  std::vector<double> PassTimes(double ratio) const;

 private:
  struct Choice {
    double cost = 0;
    int layers = 0;     // of the first stage of the rest
    int next_kind = 0;  // of the stage behind it
  };
  // -1: does not fit.
  int RecomputeOf(int kind, int from_end, int layers, bool first) const {
    return recompute_[((kind * most_stages_ + from_end - 1) * 2 + (first ? 1 : 0)) * (layers_ + 1) + layers];
  }
  StageForm Form(int kind, int from_end, int layers, bool first) const;

  const StageTable& table_;
  const int size_, most_stages_, layers_;
  std::vector<signed char> recompute_;
  std::vector<double> pass_seconds_;  // at the same places
};

}  // namespace medley
