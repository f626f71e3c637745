#pragma once
#include "absl/status/status.h"
#include "runtime/device/device.h"
#include "runtime/device/rank_group.h"
#include "runtime/model/model_config.h"
#include "runtime/model/parameter_arena.h"

// One transformer layer's passes over the ops of a device, GPT-2's or Llama's: the same order of work, of
// which the family changes the norm, the projections' bias and layout, the rotary embedding and the MLP's
// activation. The ranks of a unit share a layer by heads and by feed-forward columns (Shoeybi et al. 2019):
// each passes its own part of it and sums, with the others, what it adds to the residual stream and what it
// takes from the gradient behind a norm. Legend: rows = micro-batch windows * sequence, C hidden, F
// feed-forward, H query heads, D size of a head, J = H + two times the key-value heads, E = F (GPT-2) or 2 F
// (Llama's gate and up).
namespace medley {

// Sizes of one micro-batch, on one rank.
struct PassShape {
  ModelConfig config;  // LocalModel: the rank's own heads and columns
  int64_t batch = 0;   // windows
  int64_t sequence = 0;
  Precision precision = Precision::kF32;
  RankGroup* group = nullptr;  // the ranks that share the layer; null: this one has all of it
  int64_t rows() const { return batch * sequence; }
};

// Cuts pieces off the front of an arena, one after another.
class Carver {
 public:
  explicit Carver(Slice arena) : arena_(arena) {}
  Slice Take(int64_t elements) {
    const Slice piece = arena_.Sub(used_, elements);
    used_ += elements;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  Slice arena_;
  int64_t used_ = 0;
};

// One norm: its parameters, or their gradients, and what it keeps of each row. LayerNorm has a bias and a
// mean, RMSNorm has neither.
struct Norm {
  Slice weight, bias;  // [C]
  Slice mean, rstd;    // [rows]
};

// y = norm(x), both [rows, C]; writes the norm's mean and rstd.
absl::Status NormForward(Ops& ops, const PassShape& shape, const Norm& norm, const Slice& x, const Slice& y);

// dx, stored as said, is the gradient through the norm of dy; adds to the parameters' gradients.
absl::Status NormBackward(Ops& ops, const PassShape& shape, const Norm& norm, const Norm& gradient,
                          const Slice& x, const Slice& dy, const Slice& dx, Store store_dx);

// Parameters, or their gradients, of one layer. Llama has no biases: empty. Matrices are [in, out] in GPT-2
// and [out, in] in Llama.
struct LayerTensors {
  Slice norm1_weight, norm1_bias, qkv_weight, qkv_bias, projection_weight, projection_bias;
  Slice norm2_weight, norm2_bias, expand_weight, expand_bias, contract_weight, contract_bias;

  static LayerTensors Of(const ParameterArena& arena, ParameterArena::Part part, int layer);
};

// What a layer keeps from forward to backward: StashElements (runtime/program/memory.h) in all.
struct LayerStash {
  Slice mean1, rstd1;  // [rows]; no mean in Llama
  Slice qkv;           // [rows, J D], after the rotary embedding
  Slice attention;     // [rows, H D]
  Slice log_sum_exp;   // [batch, H, sequence]
  Slice residual;      // [rows, C], after attention
  Slice mean2, rstd2;  // [rows]; no mean in Llama
  Slice hidden;        // [rows, E], before the activation
  Slice output;        // [rows, C]

  static LayerStash Of(const PassShape& shape, Carver& carver);
};

// Scratch that the passes of all blocks share.
struct Workspace {
  Slice normed;              // [rows, C]
  Slice normed_gradient;     // [rows, the larger of C and H D]
  Slice residual_gradient;   // [rows, C]
  Slice activated;           // [rows, F]
  Slice activated_gradient;  // [rows, F], Llama only
  Slice hidden_gradient;     // [rows, E]
  Slice qkv_gradient;        // [rows, J D]
  Slice cosine, sine;        // [sequence, D / 2], Llama only; RotaryAngles (rotary.h), written once

  static Workspace Of(const PassShape& shape, bool has_layer, Carver& carver);
};

// output = layer(input), keeping in `stash` what backward needs.
absl::Status LayerForward(Ops& ops, const PassShape& shape, const LayerTensors& parameters,
                          const Slice& input, const Slice& output, const LayerStash& stash,
                          const Workspace& workspace);

// input_gradient = gradient through the layer of output_gradient (they may be the same slice);
// adds to `gradients`. `input` is what forward was given.
absl::Status LayerBackward(Ops& ops, const PassShape& shape, const LayerTensors& parameters,
                           const LayerTensors& gradients, const Slice& input, const Slice& output_gradient,
                           const Slice& input_gradient, const LayerStash& stash, const Workspace& workspace);

}  // namespace medley
