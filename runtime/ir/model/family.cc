#include "runtime/ir/model/family.h"

namespace medley {
namespace {

// Radford et al. 2019 as published.
constexpr NamedCut kGpt2AttentionIn[] = {{"attn.c_attn", TensorCut::kJoinedHeads}};
constexpr NamedCut kGpt2MlpIn[] = {{"mlp.c_fc", TensorCut::kFeedForward}};
constexpr Family kGpt2 = {
    .name = "gpt2",
    .norm = NormKind::kLayerNorm,
    .positions = PositionKind::kLearned,
    .weights = WeightOrder::kInOut,
    .has_biases = true,
    .layers = "h",
    .branches = {{{.core = CoreKind::kAttention,
                   .norm = "ln_1",
                   .in = kGpt2AttentionIn,
                   .out = {"attn.c_proj", TensorCut::kQueryHeads}},
                  {.core = CoreKind::kGelu,
                   .norm = "ln_2",
                   .in = kGpt2MlpIn,
                   .out = {"mlp.c_proj", TensorCut::kFeedForward}}}},
    .token_embedding = "wte",
    .position_embedding = "wpe",
    .final_norm = "ln_f",
    .head = "",
};

// Touvron et al. 2023 and its successors.
constexpr NamedCut kLlamaAttentionIn[] = {{"self_attn.q_proj", TensorCut::kQueryHeads},
                                          {"self_attn.k_proj", TensorCut::kKeyValueHeads},
                                          {"self_attn.v_proj", TensorCut::kKeyValueHeads}};
constexpr NamedCut kLlamaMlpIn[] = {{"mlp.gate_proj", TensorCut::kFeedForward},
                                    {"mlp.up_proj", TensorCut::kFeedForward}};
constexpr Family kLlama = {
    .name = "llama",
    .norm = NormKind::kRmsNorm,
    .positions = PositionKind::kRotary,
    .weights = WeightOrder::kOutIn,
    .has_biases = false,
    .layers = "layers",
    .branches = {{{.core = CoreKind::kAttention,
                   .norm = "input_layernorm",
                   .in = kLlamaAttentionIn,
                   .out = {"self_attn.o_proj", TensorCut::kQueryHeads}},
                  {.core = CoreKind::kSwiGlu,
                   .norm = "post_attention_layernorm",
                   .in = kLlamaMlpIn,
                   .out = {"mlp.down_proj", TensorCut::kFeedForward}}}},
    .token_embedding = "embed_tokens",
    .position_embedding = "",
    .final_norm = "norm",
    .head = "lm_head",
};

// The arena has a map's bias behind its weight, so that two maps with biases are not one.
constexpr bool IsPossible(const Family& family) {
  for (const BranchKind& branch : family.branches) {
    if (branch.in.empty() || (family.has_biases && branch.in.size() > 1)) return false;
  }
  return true;
}
static_assert(IsPossible(kGpt2) && IsPossible(kLlama));

}  // namespace

const Family& FamilyOf(ModelFamily family) { return family == ModelFamily::kLlama ? kLlama : kGpt2; }

int64_t WidthOf(const ModelConfig& c, TensorCut cut) {
  switch (cut) {
    case TensorCut::kNone:
      break;
    case TensorCut::kQueryHeads:
      return c.attention_width();
    case TensorCut::kKeyValueHeads:
      return int64_t{c.key_value_head_count()} * c.size_of_head();
    case TensorCut::kJoinedHeads:
      return c.joined_width();
    case TensorCut::kFeedForward:
      return c.feed_forward;
    case TensorCut::kVocabulary:
      return c.vocabulary;
  }
  return 0;
}

int64_t InnerWidth(const ModelConfig& config, const BranchKind& branch) {
  int64_t width = 0;
  for (const NamedCut& part : branch.in) width += WidthOf(config, part.cut);
  return width;
}

}  // namespace medley
