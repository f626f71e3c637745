#include <catch2/catch.hpp>

#include "tests/golden/golden_job.h"
#include "tests/golden/golden_training.h"

namespace medley {
namespace {

TEST_CASE(
    "the reference device trains a Llama to PyTorch's losses, norms and weights, whatever the micro-batch") {
  const std::string folder = GENERATE(as<std::string>(), kGoldenLlama, kGoldenTiedLlama);
  CheckTraining(folder, ReferenceTestDevice(), GENERATE(1, 2, 4));
}

TEST_CASE("the processor with its best instructions trains a Llama to PyTorch's losses, norms and weights") {
  const std::string folder = GENERATE(as<std::string>(), kGoldenLlama, kGoldenTiedLlama);
  CheckTraining(folder, CpuTestDevice(), 2);
}

TEST_CASE("any plan over several units trains a Llama to PyTorch's losses and norms") {
  const std::string folder = GENERATE(as<std::string>(), kGoldenLlama, kGoldenTiedLlama);
  CheckTrainingUnderRandomPlan(folder, GENERATE(range(uint64_t{1}, uint64_t{7})));
}

TEST_CASE(
    "in bf16 and f16 a Llama's losses and norms are PyTorch's in float64, but for what rounding costs") {
  const Precision precision = GENERATE(Precision::kBf16, Precision::kF16);
  const std::string folder = GENERATE(as<std::string>(), kGoldenLlama, kGoldenTiedLlama);
  CheckNarrowTraining(folder, ReferenceTestDevice(), precision);
  CheckNarrowTraining(folder, CpuTestDevice(), precision);
}

TEST_CASE("the gradients of a Llama's first step are PyTorch's") {
  const std::string folder = GENERATE(as<std::string>(), kGoldenLlama, kGoldenTiedLlama);
  CheckFirstGradients(folder, ReferenceTestDevice());
}

}  // namespace
}  // namespace medley
