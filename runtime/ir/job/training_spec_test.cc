#include "runtime/ir/job/training_spec.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("the learning rate warms up, decays and ends where the job says") {
  struct Case {
    const char* name;
    Decay decay;
    int64_t step;
    double rate;
  };
  const OptimizerSettings base{.learning_rate = 1.0, .minimum_learning_rate = 0.2, .warmup_steps = 4};
  const auto c = GENERATE(values<Case>({
      {"first step of the warm-up", Decay::kCosine, 1, 0.25},
      {"end of the warm-up", Decay::kCosine, 4, 1.0},
      {"a quarter down the cosine", Decay::kCosine, 6, 0.2 + 0.8 * 0.5 * (1 + 0.70710678118654752)},
      {"half down the cosine", Decay::kCosine, 8, 0.6},
      {"last step of the cosine", Decay::kCosine, 12, 0.2},
      {"after the last step", Decay::kCosine, 50, 0.2},
      {"half down the line", Decay::kLinear, 8, 0.6},
      {"last step of the line", Decay::kLinear, 12, 0.2},
      {"constant", Decay::kConstant, 12, 1.0},
      {"constant, warming up", Decay::kConstant, 2, 0.5},
  }));
  CAPTURE(c.name);
  OptimizerSettings optimizer = base;
  optimizer.decay = c.decay;
  CHECK(LearningRateAt(optimizer, c.step, 12) == Approx(c.rate).epsilon(1e-12));
}

TEST_CASE("a job that is all warm-up, or has none, has a learning rate on every step") {
  OptimizerSettings optimizer{.learning_rate = 1.0, .minimum_learning_rate = 0.1, .warmup_steps = 5};
  for (int64_t step = 1; step <= 5; ++step) CHECK(LearningRateAt(optimizer, step, 5) == Approx(0.2 * step));
  optimizer.warmup_steps = 0;
  CHECK(LearningRateAt(optimizer, 1, 1) == Approx(0.1));
  CHECK(LearningRateAt(optimizer, 1, 1000) == Approx(1.0).epsilon(1e-4));
}

}  // namespace
}  // namespace medley
