#pragma once
#include <cstdint>

namespace medley {

// Dimensions of a GPT-2 family model (Radford et al. 2019, as published: pre-LayerNorm, learned
// positions, tanh GELU, biases everywhere, output head tied to the token embedding).
//
// The model is a row of blocks: 0 = embedding, 1 .. layers = transformer layers,
// layers + 1 = final norm + head + loss.
struct GptConfig {
  int layers = 0;
  int hidden = 0;
  int heads = 0;             // divides hidden
  int feed_forward = 0;      // inner size of the MLP, usually 4 * hidden
  int vocabulary = 0;
  int context = 0;           // learned positions: the longest sequence
  float layer_norm_epsilon = 1e-5f;

  int blocks() const { return layers + 2; }
  int embedding_block() const { return 0; }
  int head_block() const { return layers + 1; }
  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

// Blocks [first, end) of a model.
struct BlockRange {
  int first = 0;
  int end = 0;

  int size() const { return end - first; }
  bool contains(int block) const { return first <= block && block < end; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// One job's sizes that everything else is derived from.
struct TrainingShape {
  GptConfig model;
  int sequence = 0;                // tokens in one window, <= model.context
  int global_batch_sequences = 0;  // windows in one step
};

}  // namespace medley
