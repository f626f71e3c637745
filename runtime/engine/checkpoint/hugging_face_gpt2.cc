#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face_family.h"
#include "runtime/ir/model/model_check.h"

// GPT2LMHeadModel.
namespace medley {
namespace {

using nlohmann::json;

constexpr int kEndOfText = 50256;

const RequiredValue kRequired[] = {
    {"activation_function", "gelu_new", "GPT-2's tanh GELU"},
    {"scale_attn_weights", true, "attention is divided by the square root of the head's size"},
    {"scale_attn_by_inverse_layer_idx", false, "attention is not scaled by layer"},
    {"add_cross_attention", false, "there is no encoder"},
    {"tie_word_embeddings", true, "the output head is the token embedding"},
};

absl::StatusOr<int> Context(const json& config) {
  const bool has_positions = config.contains("n_positions");
  ASSIGN_OR_RETURN(const int64_t context,
                   IntegerMember(config, has_positions ? "n_positions" : "n_ctx", kHuggingFaceSize));
  if (has_positions && config.contains("n_ctx") && config["n_ctx"] != context) {
    return absl::InvalidArgumentError(absl::StrCat("\"n_ctx\" is ", Excerpt(config["n_ctx"]),
                                                   ", \"n_positions\" is ", context, ": must be equal"));
  }
  return static_cast<int>(context);
}

absl::StatusOr<ModelConfig> Parse(const json& config) {
  RETURN_IF_ERROR(CheckRequiredValues(config, kRequired));
  ModelConfig model;
  ASSIGN_OR_RETURN(model.layers, IntegerMember(config, "n_layer", kHuggingFaceLayers));
  ASSIGN_OR_RETURN(model.hidden, IntegerMember(config, "n_embd", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.heads, IntegerMember(config, "n_head", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.vocabulary, IntegerMember(config, "vocab_size", kHuggingFaceSize));
  ASSIGN_OR_RETURN(model.context, Context(config));
  model.feed_forward = 4 * model.hidden;
  if (IsGiven(config, "n_inner")) {
    ASSIGN_OR_RETURN(model.feed_forward, IntegerMember(config, "n_inner", {1, 4 * kHuggingFaceSize.most}));
  }
  ASSIGN_OR_RETURN(model.norm_epsilon, PositiveMember(config, "layer_norm_epsilon", 1e-5f));
  RETURN_IF_ERROR(CheckModel(model, {.hidden = "\"n_embd\"", .heads = "\"n_head\""}));
  return model;
}

json Write(const ModelConfig& model) {
  json config = {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"n_layer", model.layers},
                 {"n_embd", model.hidden},
                 {"n_head", model.heads},
                 {"n_inner", nullptr},
                 {"vocab_size", model.vocabulary},
                 {"n_positions", model.context},
                 {"n_ctx", model.context},
                 {"layer_norm_epsilon", ShortestDouble(model.norm_epsilon)},
                 {"activation_function", "gelu_new"},
                 {"scale_attn_weights", true},
                 {"tie_word_embeddings", true},
                 {"attn_pdrop", 0.0},
                 {"embd_pdrop", 0.0},
                 {"resid_pdrop", 0.0},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"torch_dtype", "float32"}};
  if (model.feed_forward != 4 * model.hidden) config["n_inner"] = model.feed_forward;
  // transformers' defaults, which are ids of GPT-2's own tokenizer, would lie outside a smaller vocabulary.
  if (model.vocabulary > kEndOfText) config["bos_token_id"] = config["eos_token_id"] = kEndOfText;
  return config;
}

}  // namespace

const HuggingFaceFamily kHuggingFaceGpt2 = {.family = ModelFamily::kGpt2,
                                            .model_type = "gpt2",
                                            .prefix = "transformer.",
                                            .bare_parameter = "",
                                            .layer_prefix = "h.",
                                            .layers_member = "n_layer",
                                            .parse = &Parse,
                                            .write = &Write};

}  // namespace medley
