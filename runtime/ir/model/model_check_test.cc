#include "runtime/ir/model/model_check.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

namespace medley {
namespace {

const ModelConfig kGpt2 = {
    .layers = 2, .hidden = 48, .heads = 4, .feed_forward = 192, .vocabulary = 97, .context = 32};
const ModelConfig kLlama = {.layers = 2,
                            .hidden = 48,
                            .heads = 4,
                            .feed_forward = 80,
                            .vocabulary = 97,
                            .context = 32,
                            .family = ModelFamily::kLlama,
                            .tied_head = false,
                            .key_value_heads = 2,
                            .head_size = 16,
                            .rotary_scaling = RotaryScaling{}};

struct Case {
  ModelConfig model;
  void (*spoil)(ModelConfig&);
  std::string message;
};

TEST_CASE("sizes that do not go together are refused by name and value") {
  CHECK(CheckModel(kGpt2).ok());
  CHECK(CheckModel(kLlama).ok());
  const auto c = GENERATE(values<Case>({
      {kGpt2, [](ModelConfig& m) { m.heads = 5; }, "heads: 5 does not divide hidden, 48"},
      {kGpt2, [](ModelConfig& m) { m.hidden = 0; }, "hidden: 0, must be at least 1"},
      {kGpt2, [](ModelConfig& m) { m.layers = -1; }, "layers: -1, must be at least 0"},
      {kGpt2, [](ModelConfig& m) { m.norm_epsilon = std::numeric_limits<float>::quiet_NaN(); },
       "norm_epsilon: nan, must be positive"},
      {kGpt2, [](ModelConfig& m) { m.tied_head = false; },
       "a GPT-2 has a tied head, as many key and value heads as query heads, heads of hidden / heads, and no "
       "rotary "
       "positions"},
      {kLlama, [](ModelConfig& m) { m.key_value_heads = 3; }, "key_value_heads: 3 does not divide heads, 4"},
      {kLlama, [](ModelConfig& m) { m.head_size = 15; },
       "head_size: 15 is not even; rotary positions turn pairs"},
      {kLlama, [](ModelConfig& m) { m.head_size = 0, m.heads = 16, m.key_value_heads = 0; },
       "head_size: 3 is not even; rotary positions turn pairs"},
      {kLlama, [](ModelConfig& m) { m.head_size = 0, m.heads = 5, m.key_value_heads = 1; },
       "heads: 5 does not divide hidden, 48"},
      {kLlama, [](ModelConfig& m) { m.rotary_base = 0; }, "rotary_base: 0, must be positive"},
      {kLlama, [](ModelConfig& m) { m.rotary_scaling->high_frequency_factor = 1; },
       "rotary_scaling: the low-frequency factor, 1, must be less than the high-frequency factor, 1"},
      {kLlama, [](ModelConfig& m) { m.rotary_scaling->original_context = 0; },
       "rotary_scaling: factors 8 and 1, context 0; must be positive"},
  }));
  ModelConfig model = c.model;
  c.spoil(model);
  const absl::Status status = CheckModel(model);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == c.message);
}

TEST_CASE("a message calls dimensions what their source calls them") {
  ModelConfig model = kLlama;
  model.key_value_heads = 3;
  CHECK(CheckModel(model, {.heads = "\"num_attention_heads\"", .key_value_heads = "\"num_key_value_heads\""})
            .message() == "\"num_key_value_heads\": 3 does not divide \"num_attention_heads\", 4");
}

}  // namespace
}  // namespace medley
