#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace medley {

// What the prompt's ids come from.
enum class PromptKind : uint8_t { kBytes, kIds };

struct GenerateOptions {
  std::string model_directory;  // as `medley export` or Hugging Face wrote it
  std::vector<int32_t> prompt;  // token ids, at least one
  PromptKind prompt_kind = PromptKind::kIds;
  int tokens = 200;          // to generate
  double temperature = 0.8;  // 0: always the likeliest
  int top_k = 40;            // 0: all
  uint64_t seed = 1;
};

// "1,2,3", "1 2 3" or "[1, 2, 3]". InvalidArgument "--prompt-tokens: ...": what is no id, or none at all.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text);

// Continues the prompt, token by token, and hands each new one to `emit`; calls `begin` before, once the
// model is loaded. Runs the whole context again for every token: for looking at a model, not for serving it.
// InvalidArgument: an option out of range, a prompt id outside the vocabulary, bytes for a model of another
// vocabulary than the 256 bytes, a model that is not there or may not be read. Others: reading the model, the device. Nothing is begun then, unless the
// device fails later.
absl::Status Generate(Device& device, const GenerateOptions& options, const std::function<void()>& begin,
                      const std::function<void(int32_t)>& emit);

}  // namespace medley
