#include "runtime/ir/program/random_pipeline.h"

#include <iterator>
#include <random>
#include <set>
#include <vector>

namespace medley {
namespace {

class Source {
 public:
  explicit Source(uint64_t seed) : random_(seed) {}
  int Integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  TimedStage Stage(UnitId unit, int chunk) {
    const double forward = Real(0.2, 4);
    return {.unit = unit,
            .chunk = chunk,
            .forward_seconds = forward,
            .input_gradient_seconds = forward * Real(0.5, 1.5),
            .weight_gradient_seconds = forward * Real(0.5, 1.5),
            .message_seconds = Integer(0, 1) == 0 ? 0 : Real(0, 1),
            .kept = Real(0.5, 2),
            .deferred = Real(0, 2)};
  }

 private:
  std::mt19937_64 random_;
};

// Of each unit from 0, in the order of the blocks.
void NumberChunks(TimedPipeline& pipeline) {
  std::vector<std::set<int>> blocks(pipeline.units);
  for (const TimedRoute& route : pipeline.routes) {
    for (const TimedStage& stage : route.stages) blocks[stage.unit].insert(stage.chunk);
  }
  for (TimedRoute& route : pipeline.routes) {
    for (TimedStage& stage : route.stages) {
      const std::set<int>& held = blocks[stage.unit];
      stage.chunk = static_cast<int>(std::distance(held.begin(), held.find(stage.chunk)));
    }
  }
}

}  // namespace

TimedPipeline RandomPipeline(uint64_t seed) {
  Source source(seed);
  TimedPipeline pipeline{.units = source.Integer(2, 5)};
  for (int routes = source.Integer(1, 3); routes > 0; --routes) {
    TimedRoute& route = pipeline.routes.emplace_back();
    route.micro_batches = source.Integer(1, 10);
    UnitId before;
    const int stages = source.Integer(1, 9);
    for (int s = 0; s < stages; ++s) {
      UnitId unit = source.Integer(0, pipeline.units - 1);
      if (unit == before) unit = (unit + 1) % pipeline.units;  // ranges of a unit never touch
      // Stages of the same number are of the same blocks.
      route.stages.push_back(source.Stage(unit, s));
      before = unit;
    }
    route.stages.back().message_seconds = 0;
  }
  NumberChunks(pipeline);
  return pipeline;
}

TimedPipeline RandomOncePassed(uint64_t seed) {
  Source source(seed);
  TimedPipeline pipeline{.units = source.Integer(2, 8)};
  TimedRoute& route = pipeline.routes.emplace_back();
  route.micro_batches = source.Integer(1, 3 * pipeline.units);
  for (int u = 0; u < pipeline.units; ++u) route.stages.push_back(source.Stage(u, 0));
  route.stages.back().message_seconds = 0;
  return pipeline;
}

}  // namespace medley
