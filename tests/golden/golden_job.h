#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ir/job/training_spec.h"

// The golden files (README.md) as jobs of Medley's. Paths are from the root of the repository, where tests
// run.
namespace medley {

inline constexpr char kGoldenGpt2[] = "tests/golden/gpt2_tiny";
inline constexpr char kGoldenLlama[] = "tests/golden/llama_tiny";
inline constexpr char kGoldenTiedLlama[] = "tests/golden/llama_tied";

// golden.json of `folder`.
nlohmann::json Golden(const std::string& folder);

// The training that its numbers are of. The model is read from `folder`.
TrainingSpec GoldenJob(const std::string& folder);

}  // namespace medley
