#include "agent/profile/block_samples.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a sample is the mean of the passes that took its sum, and the slowdown counts for all of them") {
  BlockRepetition sum;
  for (int i = 0; i < 2; ++i)
    sum += {.forward = {2, 0}, .backward = {4, 0}, .inputs = {3, 0}, .weights = {2, 0}};
  CHECK(sum.all().seconds == 22);
  BlockSamples samples;
  samples.Add(sum, 4);
  const MeasuredPass pass = samples.Pass(2);
  CHECK(pass.forward_seconds == 2);
  CHECK(pass.backward_seconds == 4);
  CHECK(pass.weight_gradient_seconds == 2);
  CHECK(pass.split_seconds == 1);  // 5 apart, 4 together, of two layers, twice as slow
}

TEST_CASE("gradients that are faster apart cost nothing to split, and none takes longer than both") {
  BlockSamples samples;
  samples.Add({.forward = {1, 0}, .backward = {2, 0}, .inputs = {0.5, 0}, .weights = {1, 0}}, 1);
  CHECK(samples.Pass(1).split_seconds == 0);
  samples = {};
  samples.Add({.forward = {1, 0}, .backward = {2, 0}, .inputs = {9, 0}, .weights = {9, 0}}, 1);
  CHECK(samples.Pass(1).weight_gradient_seconds == 2);
  CHECK(samples.Pass(1).split_seconds == 2);
}

TEST_CASE("the spread of a pass that is short beside the other is of no account") {
  BlockSamples samples;
  for (const double forward : {0.01, 0.02, 0.03, 0.04})
    samples.Add({.forward = {forward, 0}, .backward = {1, 0}}, 1);
  CHECK(samples.Pass(1).spread == 0);
}

TEST_CASE("a size that was not measured is in proportion to the only one, or on the line, and never falls") {
  const MeasuredPass one{.forward_seconds = 1, .backward_seconds = 5, .spread = 0.1};
  const MeasuredPass two{.forward_seconds = 1.5, .backward_seconds = 4, .spread = 0.2};
  CHECK(Extrapolated({{2, one}}, 8).forward_seconds == 4);
  const MeasuredPass further = Extrapolated({{1, one}, {2, two}}, 4);
  CHECK(further.forward_seconds == 2.5);
  CHECK(further.backward_seconds == 4);
  CHECK(further.spread == 0.2);
}

}  // namespace
}  // namespace medley
