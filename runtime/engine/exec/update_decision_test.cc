#include "runtime/engine/exec/update_decision.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TrainingSpec SpecOf(double clip_norm, int skip_non_finite, Precision precision) {
  TrainingSpec spec;
  spec.steps = 100;
  spec.precision = precision;
  spec.optimizer.clip_norm = clip_norm;
  spec.optimizer.skip_non_finite = skip_non_finite;
  return spec;
}

TEST_CASE("gradients are clipped to the norm that the job allows, and divided by the loss scale") {
  const TrainingSpec spec = SpecOf(2, 0, Precision::kF16);
  UpdateDecision decision(spec, {.factor = 8});
  REQUIRE(decision.Decide(3, 1, 8 * 1.5).ok());
  CHECK_FALSE(decision.clipped());
  CHECK(decision.update() == decision.Unclipped(3));
  CHECK(decision.update()->gradient_scale == 1.0f / 8);
  REQUIRE(decision.Decide(4, 1, 8 * 5.0).ok());
  CHECK(decision.clipped());
  CHECK(decision.update()->step == 4);
  CHECK(decision.update()->gradient_scale == Approx(2.0 / 5 / 8));
}

TEST_CASE(
    "a step that is not finite halves the loss scale, and is one of those in a row that the job skips once "
    "it is 1") {
  const double loss = GENERATE(1.0, std::nan("")), norm = std::isnan(loss) ? 1.0 : kInfinity;
  const TrainingSpec spec = SpecOf(0, 1, Precision::kF16);
  UpdateDecision decision(spec, {.factor = 2});
  REQUIRE(decision.Decide(1, loss, norm).ok());
  CHECK(decision.skipped());
  CHECK_FALSE(decision.update().has_value());
  CHECK(decision.loss_scale() == LossScale{.factor = 1});
  for (int64_t step = 2; step <= 4; step += 2) {  // one that is finite between two that are not
    REQUIRE(decision.Decide(step, loss, norm).ok());
    CHECK(decision.skipped());
    REQUIRE(decision.Decide(step + 1, 1, 1).ok());
    CHECK_FALSE(decision.skipped());
    CHECK(decision.update() == decision.Unclipped(step + 1));
  }
  REQUIRE(decision.Decide(6, loss, norm).ok());
  const absl::Status refused = decision.Decide(7, loss, norm);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(
      std::string(refused.message()),
      Catch::Contains(std::isnan(loss) ? "the loss is not finite" : "the gradient norm is not finite") &&
          Catch::Contains("after 1 step in a row that was skipped") &&
          Catch::Contains("checkpoint.resume_from") && Catch::Contains("optimizer.skip_non_finite"));
}

TEST_CASE("a job that skips no steps is told that its loss scale was 1 already") {
  const TrainingSpec spec = SpecOf(0, 0, Precision::kF16);
  UpdateDecision decision(spec, {.factor = 1});
  const absl::Status refused = decision.Decide(1, kInfinity, 1);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("with a loss scale of 1"));
}

}  // namespace
}  // namespace medley
