#include <catch2/catch.hpp>

#include "tests/golden/golden_job.h"
#include "tests/golden/golden_training.h"

namespace medley {
namespace {

TEST_CASE(
    "the reference device trains a GPT-2 to PyTorch's losses, norms and weights, whatever the micro-batch") {
  CheckTraining(kGoldenGpt2, ReferenceTestDevice(), GENERATE(1, 2, 4));
}

TEST_CASE("the processor with its best instructions trains a GPT-2 to PyTorch's losses, norms and weights") {
  CheckTraining(kGoldenGpt2, CpuTestDevice(), 2);
}

TEST_CASE("any plan over several units trains a GPT-2 to PyTorch's losses and norms") {
  CheckTrainingUnderRandomPlan(kGoldenGpt2, GENERATE(range(uint64_t{1}, uint64_t{7})));
}

TEST_CASE(
    "in bf16 and f16 a GPT-2's losses and norms are PyTorch's in float64, but for what rounding costs") {
  const Precision precision = GENERATE(Precision::kBf16, Precision::kF16);
  CheckNarrowTraining(kGoldenGpt2, ReferenceTestDevice(), precision);
  CheckNarrowTraining(kGoldenGpt2, CpuTestDevice(), precision);
}

TEST_CASE("the gradients of a GPT-2's first step are PyTorch's") {
  CheckFirstGradients(kGoldenGpt2, ReferenceTestDevice());
}

}  // namespace
}  // namespace medley
