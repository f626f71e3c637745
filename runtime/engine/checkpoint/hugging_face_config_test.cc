#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/checkpoint/hugging_face_family.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

const ModelConfig kGpt2 = {
    .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 24, .vocabulary = 256, .context = 16};
// Llama 3.2 1B.
const ModelConfig kLlama = {.layers = 16,
                            .hidden = 2048,
                            .heads = 32,
                            .feed_forward = 8192,
                            .vocabulary = 128256,
                            .context = 131072,
                            .family = ModelFamily::kLlama,
                            .tied_head = true,
                            .key_value_heads = 8,
                            .head_size = 64,
                            .rotary_base = 500000,
                            .rotary_scaling = RotaryScaling{32, 1, 4, 8192}};

json Gpt2Config() {
  return {{"model_type", "gpt2"},
          {"n_layer", 2},
          {"n_embd", 8},
          {"n_head", 2},
          {"n_inner", 24},
          {"vocab_size", 256},
          {"n_positions", 16},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"resid_pdrop", 0.1}};
}

json Llama3Scaling() {
  return {{"factor", 32.0},
          {"high_freq_factor", 4.0},
          {"low_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192},
          {"rope_type", "llama3"}};
}

json LlamaConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 128000},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 16},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling", Llama3Scaling()},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 128256}};
}

absl::StatusOr<ModelConfig> Read(const json& config) {
  const TemporaryDirectory directory;
  directory.Write("config.json", config.dump());
  return ReadModelConfig(directory.path());
}

TEST_CASE("a config is read with GPT-2's defaults") {
  json config = Gpt2Config();
  config["n_inner"] = nullptr;
  config["n_ctx"] = config["n_positions"];
  for (const char* name : {"layer_norm_epsilon", "activation_function", "n_positions"}) config.erase(name);
  const auto model = Read(config);
  REQUIRE(model.ok());
  ModelConfig expected = kGpt2;
  expected.feed_forward = 32;
  CHECK(*model == expected);
}

TEST_CASE("the config of a published Llama is read") {
  const auto model = Read(LlamaConfig());
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(*model == kLlama);
}

TEST_CASE("a config is read with Llama's defaults") {
  json config = LlamaConfig();
  for (const char* name : {"num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "rope_scaling",
                           "tie_word_embeddings", "hidden_act", "attention_bias", "mlp_bias"}) {
    config.erase(name);
  }
  ModelConfig expected = kLlama;
  expected.key_value_heads = 32;
  expected.norm_epsilon = 1e-6f;
  expected.rotary_base = 10000;
  expected.rotary_scaling.reset();
  expected.tied_head = false;
  const auto model = Read(config);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(*model == expected);
  for (const char* name : {"num_key_value_heads", "head_dim", "rope_scaling"}) config[name] = nullptr;
  CHECK(*Read(config) == expected);
  config["rope_scaling"] = {{"type", "default"}};
  CHECK(*Read(config) == expected);
}

TEST_CASE("rotary positions are read where each version of transformers writes them") {
  json config = LlamaConfig();
  SECTION("with the type's older name") {
    config["rope_scaling"].erase("rope_type");
    config["rope_scaling"]["type"] = "llama3";
  }
  SECTION("in rope_parameters, with the base") {
    config.erase("rope_scaling");
    config.erase("rope_theta");
    config["rope_parameters"] = Llama3Scaling();
    config["rope_parameters"]["rope_theta"] = 500000.0;
  }
  const auto model = Read(config);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(*model == kLlama);
}

struct Case {
  std::string member;
  json value;
  std::string message;
};

void CheckRefused(json config, const Case& c) {
  CAPTURE(c.member);
  config[c.member] = c.value;
  const auto model = Read(config);
  REQUIRE(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains("config.json") && Contains(c.message));
}

TEST_CASE("a config that is not GPT-2's is refused with the member and its value") {
  CheckRefused(Gpt2Config(),
               GENERATE(values<Case>({
                   {"model_type", "bert", "\"model_type\" is \"bert\", must be \"gpt2\" or \"llama\""},
                   {"activation_function", "relu", "\"activation_function\" is \"relu\", only \"gelu_new\""},
                   {"scale_attn_by_inverse_layer_idx", true, "\"scale_attn_by_inverse_layer_idx\" is true"},
                   {"scale_attn_weights", false, "\"scale_attn_weights\" is false"},
                   {"tie_word_embeddings", false, "\"tie_word_embeddings\" is false"},
                   {"add_cross_attention", true, "\"add_cross_attention\" is true"},
                   {"n_layer", 0, "\"n_layer\" is 0"},
                   {"n_layer", nullptr, "\"n_layer\" is null"},
                   {"n_embd", 1e9, "\"n_embd\" is 1000000000.0"},
                   {"n_head", 3, "\"n_head\": 3 does not divide \"n_embd\", 8"},
                   {"n_inner", -5, "\"n_inner\" is -5"},
                   {"vocab_size", "many", "\"vocab_size\" is \"many\""},
                   {"n_ctx", 17, "\"n_ctx\" is 17, \"n_positions\" is 16"},
                   {"layer_norm_epsilon", 0, "\"layer_norm_epsilon\" is 0"},
               })));
}

TEST_CASE("a config that is not Llama's as published is refused with the member and its value") {
  const auto scaling = [](const char* member, const json& value) {
    json object = Llama3Scaling();
    object[member] = value;
    if (value.is_null()) object.erase(member);
    return object;
  };
  CheckRefused(
      LlamaConfig(),
      GENERATE_COPY(values<Case>({
          {"model_type", "mistral", "\"model_type\" is \"mistral\""},
          {"hidden_act", "gelu", "\"hidden_act\" is \"gelu\", only \"silu\" is supported"},
          {"attention_bias", true, "\"attention_bias\" is true, only false is supported"},
          {"mlp_bias", true, "\"mlp_bias\" is true, only false is supported"},
          {"sliding_window", 4096, "\"sliding_window\" is 4096, only null or at least"},
          {"partial_rotary_factor", 0.5, "\"partial_rotary_factor\" is 0.5, only 1.0 is supported"},
          {"num_key_value_heads", 5,
           "\"num_key_value_heads\": 5 does not divide \"num_attention_heads\", 32"},
          {"num_key_value_heads", 0, "\"num_key_value_heads\" is 0"},
          {"head_dim", 63, "\"head_dim\": 63 is not even"},
          {"intermediate_size", nullptr, "\"intermediate_size\" is null"},
          {"rms_norm_eps", -1, "\"rms_norm_eps\" is -1, must be positive"},
          {"rope_theta", 0, "\"rope_theta\" is 0, must be positive"},
          {"tie_word_embeddings", "yes", "\"tie_word_embeddings\" is \"yes\""},
          {"rope_scaling", 8, "\"rope_scaling\": 8 is not an object"},
          {"rope_scaling", {{"factor", 8}}, "\"rope_scaling\": \"rope_type\" is missing"},
          {"rope_scaling",
           {{"type", "linear"}, {"factor", 8}},
           "\"rope_scaling\": \"type\" is \"linear\", only \"default\" and \"llama3\" are supported"},
          {"rope_scaling", scaling("rope_type", "yarn"), "\"rope_type\" is \"yarn\""},
          {"rope_parameters", scaling("rope_type", "dynamic"),
           "\"rope_parameters\": \"rope_type\" is \"dynamic\""},
          {"rope_scaling", scaling("factor", nullptr), "\"rope_scaling\": \"factor\" is missing"},
          {"rope_scaling", scaling("low_freq_factor", 4),
           "\"rope_scaling\": the low-frequency factor, 4, must be less"},
          {"rope_scaling", scaling("original_max_position_embeddings", 0),
           "\"original_max_position_embeddings\" is 0"},
          {"rope_scaling", scaling("partial_rotary_factor", 0.25), "\"partial_rotary_factor\" is 0.25"},
      })));
}

TEST_CASE("a directory without a config is not a model") {
  const TemporaryDirectory directory;
  CHECK(absl::IsNotFound(ReadModelConfig(directory.path()).status()));
  directory.Write("config.json", "[1]");
  CHECK(absl::IsInvalidArgument(ReadModelConfig(directory.path()).status()));
}

TEST_CASE("what is written of a model says the same when it is read, in as few digits as that takes") {
  const ModelConfig model = GENERATE(kGpt2, kLlama);
  const json config = HuggingFaceFamilyOf(model).write(model);
  CAPTURE(config.dump());
  CHECK(*Read(config) == model);
  CHECK(config["torch_dtype"] == "float32");
  if (model.family == ModelFamily::kLlama) {
    CHECK(config["architectures"] == json{"LlamaForCausalLM"});
    CHECK(config["rms_norm_eps"].dump() == "1e-05");
    CHECK(config["rope_theta"].dump() == "500000.0");
    CHECK(config["rope_scaling"] == Llama3Scaling());
  } else {
    CHECK(config["architectures"] == json{"GPT2LMHeadModel"});
    CHECK(config["n_inner"] == 24);
    CHECK(config["layer_norm_epsilon"].dump() == "1e-05");
  }
}

}  // namespace
}  // namespace medley
