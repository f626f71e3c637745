#pragma once
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace medley {

struct GenerateOptions {
  std::string model_directory;      // as `medley export` or Hugging Face wrote it
  std::vector<int32_t> prompt;      // token ids, at least one
  int tokens = 200;                 // to generate
  double temperature = 0.8;         // 0: always the likeliest
  int top_k = 40;                   // 0: all
  uint64_t seed = 1;
};

// Continues the prompt, token by token, and hands each new one to `emit`. Runs the whole context again for every token: for
// looking at a model, not for serving it.
// InvalidArgument: an option out of range, or a prompt id outside the vocabulary. Others: reading the model, the device.
absl::Status Generate(Device& device, const GenerateOptions& options, const std::function<void(int32_t)>& emit);

}  // namespace medley
