#include "runtime/engine/checkpoint/model_json.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

const ModelConfig kGpt2 = {
    .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 31, .context = 16};
const ModelConfig kLlama = {.layers = 2,
                            .hidden = 48,
                            .heads = 4,
                            .feed_forward = 80,
                            .vocabulary = 97,
                            .context = 32,
                            .norm_epsilon = 1e-6f,
                            .family = ModelFamily::kLlama,
                            .tied_head = false,
                            .key_value_heads = 2,
                            .head_size = 16,
                            .rotary_base = 500000,
                            .rotary_scaling = RotaryScaling{32, 0.7f, 4.1f, 4096}};

TEST_CASE("a model of either family is read back as it was") {
  ModelConfig bare = kLlama;
  bare.tied_head = true;
  bare.key_value_heads = bare.head_size = 0;
  bare.rotary_scaling.reset();
  const ModelConfig model = GENERATE_COPY(kGpt2, kLlama, bare);
  const json object = json::parse(ModelJson(model).dump());
  CAPTURE(object.dump());
  const auto parsed = ParseModelJson(object);
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK(*parsed == model);
}

TEST_CASE("a model that names no family is a GPT-2") {
  const auto model = ParseModelJson({{"layers", 2},
                                     {"hidden", 8},
                                     {"heads", 2},
                                     {"feed_forward", 32},
                                     {"vocabulary", 31},
                                     {"context", 16},
                                     {"layer_norm_epsilon", 1e-5f}});
  REQUIRE(model.ok());
  CHECK(*model == kGpt2);
}

TEST_CASE("a member that is missing or wrong is refused by name") {
  struct Case {
    std::string member;
    json value;  // null: missing
    std::string message;
  };
  const auto c = GENERATE(values<Case>({
      {"family", "bert", "\"family\" is \"bert\", must be \"gpt2\" or \"llama\""},
      {"family", 3, "\"family\" is 3, must be a string"},
      {"hidden", nullptr, "\"hidden\" is missing"},
      {"tied_head", nullptr, "\"tied_head\" is missing"},
      {"tied_head", 1, "\"tied_head\" is 1, must be true or false"},
      {"head_size", -1, "\"head_size\" is -1"},
      {"key_value_heads", "2", "\"key_value_heads\" is \"2\""},
      {"rotary_base", nullptr, "\"rotary_base\" is missing"},
      {"rotary_scaling", 8, "\"factor\" asked of 8, not an object"},
      {"rotary_scaling", json{{"factor", 8}}, "\"low_frequency_factor\" is missing"},
  }));
  json object = ModelJson(kLlama);
  if (c.value.is_null()) object.erase(c.member);
  if (!c.value.is_null()) object[c.member] = c.value;
  CAPTURE(object.dump());
  const auto model = ParseModelJson(object);
  REQUIRE(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains(c.message));
}

}  // namespace
}  // namespace medley
