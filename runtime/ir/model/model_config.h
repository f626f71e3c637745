#pragma once
#include <cstdint>
#include <optional>

#include "runtime/base/id.h"

namespace medley {

// What a layer is made of; family.h has each one's table.
//   kGpt2   Radford et al. 2019 as published: pre-LayerNorm, learned positions, tanh GELU, biases everywhere.
//   kLlama  Touvron et al. 2023 and its successors: pre-RMSNorm, rotary positions, grouped-query attention,
//           SwiGLU, no biases.
enum class ModelFamily : uint8_t { kGpt2, kLlama };

// How Llama 3.1 stretches the wavelengths of the rotary embedding for a longer context ("rope_type":
// "llama3").
struct RotaryScaling {
  float factor = 8;
  float low_frequency_factor = 1;
  float high_frequency_factor = 4;
  int original_context = 8192;
  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;
};

using BlockId = Id<struct BlockTag>;  // as ModelConfig numbers them
using LayerId = Id<struct LayerTag>;  // of the transformer layers alone: 0 is block 1
constexpr BlockId BlockOfLayer(LayerId layer) { return layer + 1; }
constexpr LayerId LayerOfBlock(BlockId block) { return block - 1; }

// Dimensions of a model.
//
// The model is a row of blocks: 0 = embedding, 1 .. layers = transformer layers,
// layers + 1 = final norm + head + loss.
struct ModelConfig {
  int layers = 0;
  int hidden = 0;
  int heads = 0;         // of the queries; GPT-2: divides hidden
  int feed_forward = 0;  // inner size of the MLP, usually 4 * hidden
  int vocabulary = 0;
  int context = 0;  // the longest sequence; with GPT-2, the number of learned positions
  float norm_epsilon = 1e-5f;

  ModelFamily family = ModelFamily::kGpt2;
  bool tied_head = true;  // the output head is the token embedding; always with GPT-2
  // Llama only.
  int key_value_heads = 0;    // divides heads; 0: as many as heads
  int head_size = 0;          // even; 0: hidden / heads
  float rotary_base = 10000;  // "rope_theta"
  std::optional<RotaryScaling> rotary_scaling;

  int blocks() const { return layers + 2; }
  BlockId embedding_block() const { return 0; }
  BlockId head_block() const { return layers + 1; }
  bool is_layer(BlockId block) const { return block > 0 && block <= layers; }

  int key_value_head_count() const { return key_value_heads > 0 ? key_value_heads : heads; }
  int size_of_head() const { return head_size > 0 ? head_size : hidden / heads; }
  // Query, key and value heads side by side, as one projection makes them.
  int joined_heads() const { return heads + 2 * key_value_head_count(); }
  int64_t attention_width() const { return int64_t{heads} * size_of_head(); }
  int64_t joined_width() const { return int64_t{joined_heads()} * size_of_head(); }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Blocks [first, end) of a model.
struct BlockRange {
  BlockId first = 0;
  BlockId end = 0;

  int size() const { return end - first; }
  bool contains(BlockId block) const { return first <= block && block < end; }
  friend auto operator<=>(const BlockRange&, const BlockRange&) = default;
};

// One job's sizes that everything else is derived from.
struct TrainingShape {
  ModelConfig model;
  int sequence = 0;                // tokens in one window, <= model.context
  int global_batch_sequences = 0;  // windows in one step
};

}  // namespace medley
