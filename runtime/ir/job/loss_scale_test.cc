#include "runtime/ir/job/loss_scale.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("only jobs in f16 scale their loss") {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    LossScale scale = LossScale::For(precision);
    CHECK(scale == LossScale{});
    for (int i = 0; i < 3 * LossScale::kStepsToGrow; ++i) scale.Grow(precision);
    CHECK(scale == LossScale{});
    CHECK(!scale.Shrink());
  }
}

TEST_CASE("the scale doubles after so many good steps in a row, and halves after a bad one") {
  LossScale scale = LossScale::For(Precision::kF16);
  CHECK(scale.factor == 65536);
  const auto good = [&](int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) scale.Grow(Precision::kF16);
  };
  good(LossScale::kStepsToGrow - 1);
  CHECK(scale.factor == 65536);
  CHECK(scale.Shrink());
  CHECK(scale == LossScale{32768, 0});
  good(LossScale::kStepsToGrow - 1);
  CHECK(scale.factor == 32768);
  good(1);
  CHECK(scale == LossScale{65536, 0});
  good(20 * LossScale::kStepsToGrow);
  CHECK(scale.factor == LossScale::kMost);
  for (int halvings = 0; halvings < 24; ++halvings) CHECK(scale.Shrink());
  CHECK(scale.factor == 1);
  CHECK(!scale.Shrink());
}

}  // namespace
}  // namespace medley
