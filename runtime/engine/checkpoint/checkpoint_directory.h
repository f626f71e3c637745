#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace medley {

// Where the checkpoint of `step` (>= 0) lies: "<root>/step-00000123".
std::string CheckpointDirectory(const std::string& root, int64_t step);

// The step whose directory `path` is, by its last component. Nothing if it is named otherwise.
std::optional<int64_t> StepOfDirectory(const std::string& path);

}  // namespace medley
