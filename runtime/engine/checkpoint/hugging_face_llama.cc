#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face_family.h"
#include "runtime/ir/model/model_check.h"

// LlamaForCausalLM.
namespace medley {
namespace {

using nlohmann::json;

// Defaults of transformers' LlamaConfig, not of job specs.
constexpr float kDefaultNormEpsilon = 1e-6f;
constexpr float kDefaultRotaryBase = 10000;

const RequiredValue kRequired[] = {
    {"hidden_act", "silu", "the MLP is SwiGLU"},
    {"attention_bias", false, "projections have no biases"},
    {"mlp_bias", false, "projections have no biases"},
};
const RequiredValue kWholeHeads = {"partial_rotary_factor", 1.0, "heads are turned whole"};

const DimensionNames kNames = {.hidden = "\"hidden_size\"",
                               .heads = "\"num_attention_heads\"",
                               .key_value_heads = "\"num_key_value_heads\"",
                               .head_size = "\"head_dim\"",
                               .norm_epsilon = "\"rms_norm_eps\"",
                               .rotary_base = "\"rope_theta\"",
                               .rotary_scaling = "\"rope_scaling\""};

// What rotary positions `rope` asks for, which is the member "rope_scaling", or "rope_parameters" since
// transformers 5.
absl::Status ParseRope(const json& rope, ModelConfig& model) {
  if (!rope.is_object()) return absl::InvalidArgumentError(absl::StrCat(Excerpt(rope), " is not an object"));
  RETURN_IF_ERROR(CheckRequiredValues(rope, {&kWholeHeads, 1}));
  ASSIGN_OR_RETURN(model.rotary_base, PositiveMember(rope, "rope_theta", model.rotary_base));
  const std::string key = rope.contains("rope_type") ? "rope_type" : "type";  // as before transformers 4.43
  if (!rope.contains(key)) return absl::InvalidArgumentError("\"rope_type\" is missing");
  if (rope[key] == "default") return absl::OkStatus();
  if (rope[key] != "llama3") {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is ", Excerpt(rope[key]),
                                                   ", only \"default\" and \"llama3\" are supported"));
  }
  RotaryScaling scaling;
  // transformers has no defaults for these.
  for (const auto& [name, value] :
       {std::pair("factor", &scaling.factor), std::pair("low_freq_factor", &scaling.low_frequency_factor),
        std::pair("high_freq_factor", &scaling.high_frequency_factor)}) {
    RETURN_IF_ERROR(Member(rope, name).status());
    ASSIGN_OR_RETURN(*value, PositiveMember(rope, name, *value));
  }
  ASSIGN_OR_RETURN(scaling.original_context,
                   IntegerMember(rope, "original_max_position_embeddings", kHuggingFaceSize));
  model.rotary_scaling = scaling;
  return absl::OkStatus();
}

absl::Status ParseRotary(const json& config, ModelConfig& model) {
  ASSIGN_OR_RETURN(model.rotary_base, PositiveMember(config, "rope_theta", kDefaultRotaryBase));
  for (const char* member : {"rope_parameters", "rope_scaling"}) {
    if (!IsGiven(config, member)) continue;
    return Annotate(ParseRope(config[member], model), absl::StrCat("\"", member, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TiedHead(const json& config) {
  if (!IsGiven(config, "tie_word_embeddings")) return false;
  const json& tied = config["tie_word_embeddings"];
  if (tied.is_boolean()) return tied.get<bool>();
  return absl::InvalidArgumentError(
      absl::StrCat("\"tie_word_embeddings\" is ", Excerpt(tied), ", must be true or false"));
}

// Attention to the last so many positions alone is not computed; where it is all of them, there is no
// difference.
absl::Status CheckWindow(const json& config, int context) {
  if (!IsGiven(config, "sliding_window")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t window, IntegerMember(config, "sliding_window", {.least = 0}));
  if (window >= context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"sliding_window\" is ", window, ", only null or at least \"max_position_embeddings\", which is ",
      context, ", is supported: every position attends to all before it"));
}

absl::StatusOr<ModelConfig> Parse(const json& config) {
  RETURN_IF_ERROR(CheckRequiredValues(config, kRequired));
  RETURN_IF_ERROR(CheckRequiredValues(config, {&kWholeHeads, 1}));
  ModelConfig model = {.family = ModelFamily::kLlama};
  ASSIGN_OR_RETURN(model.layers, IntegerMember(config, "num_hidden_layers", kHuggingFaceLayers));
  ASSIGN_OR_RETURN(model.hidden, IntegerMember(config, "hidden_size", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.heads, IntegerMember(config, "num_attention_heads", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.feed_forward, IntegerMember(config, "intermediate_size", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.vocabulary, IntegerMember(config, "vocab_size", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.context, IntegerMember(config, "max_position_embeddings", kHuggingFaceSize));
  RETURN_IF_ERROR(CheckWindow(config, model.context));
  model.key_value_heads = model.heads;
  if (IsGiven(config, "num_key_value_heads")) {
    ASSIGN_OR_RETURN(model.key_value_heads, IntegerMember(config, "num_key_value_heads", kHuggingFaceSize));
  }
  if (IsGiven(config, "head_dim")) {
    ASSIGN_OR_RETURN(model.head_size, IntegerMember(config, "head_dim", kHuggingFaceSize));
  }
  ASSIGN_OR_RETURN(model.norm_epsilon, PositiveMember(config, "rms_norm_eps", kDefaultNormEpsilon));
  ASSIGN_OR_RETURN(model.tied_head, TiedHead(config));
  RETURN_IF_ERROR(ParseRotary(config, model));
  RETURN_IF_ERROR(CheckModel(model, kNames));
  model.head_size = model.size_of_head();
  return model;
}

// In the older form, which transformers 4 and 5 both read.
json RopeScaling(const ModelConfig& model) {
  if (!model.rotary_scaling) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", ShortestDouble(model.rotary_scaling->factor)},
          {"low_freq_factor", ShortestDouble(model.rotary_scaling->low_frequency_factor)},
          {"high_freq_factor", ShortestDouble(model.rotary_scaling->high_frequency_factor)},
          {"original_max_position_embeddings", model.rotary_scaling->original_context}};
}

json Write(const ModelConfig& model) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", model.layers},
          {"hidden_size", model.hidden},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.key_value_head_count()},
          {"head_dim", model.size_of_head()},
          {"intermediate_size", model.feed_forward},
          {"vocab_size", model.vocabulary},
          {"max_position_embeddings", model.context},
          {"rms_norm_eps", ShortestDouble(model.norm_epsilon)},
          {"rope_theta", ShortestDouble(model.rotary_base)},
          {"rope_scaling", RopeScaling(model)},
          {"tie_word_embeddings", model.tied_head},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0},
          // transformers' defaults are ids of Llama 2's tokenizer, which need not be this model's.
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

}  // namespace

const HuggingFaceFamily kHuggingFaceLlama = {.family = ModelFamily::kLlama,
                                             .model_type = "llama",
                                             .prefix = "model.",
                                             .bare_parameter = "lm_head.weight",
                                             .layer_prefix = "layers.",
                                             .layers_member = "num_hidden_layers",
                                             .parse = &Parse,
                                             .write = &Write};

}  // namespace medley
