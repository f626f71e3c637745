#pragma once
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/engine/shard/pass_shape.h"
#include "runtime/ir/model/family.h"

// The passes of a layer's branches (family.h) over the ops of a device, whatever the family. The ranks of a
// unit share a branch by heads or feed-forward columns (Shoeybi et al. 2019): each passes its own part of it
// and sums, with the others, what it adds to the residual stream and what it takes from the gradient behind
// the norm. In sequence parallelism (Korthikanti et al. 2022, section 4.2.2) each has its own rows of the
// residual stream and of the norms, takes those of the sums, and gives the others those of what the linear
// maps take. Legend: rows = micro-batch windows * sequence, own those that a rank has of the stream (all
// without sequence parallelism), C hidden, I what `in` makes (InnerWidth), W what `out` takes (CoreWidth), H
// query heads, D size of a head.
namespace medley {

// Cuts tensors off the front of a buffer, one after another, each of TensorBytes.
class Carver {
 public:
  explicit Carver(Buffer& buffer, Bytes offset = {}) : buffer_(buffer), used_(offset) {}
  Slice Take(int64_t elements, Dtype dtype) {
    const Slice piece = {&buffer_, used_.value, elements, dtype};
    used_ += TensorBytes(elements, dtype);
    return piece;
  }

 private:
  Buffer& buffer_;
  Bytes used_;
};

// One norm: its parameters, or their gradients, and what it keeps of each row. LayerNorm has a bias and a
// mean, RMSNorm has neither.
struct Norm {
  Slice weight, bias;  // [C]
  Slice mean, rstd;    // [own]
  // Takes what it keeps.
  static Norm Kept(const PassShape& shape, Carver& carver);
  // Weight and bias, which lie side by side in an arena.
  Slice parameters() const;
  Norm With(const Norm& parameters) const { return {parameters.weight, parameters.bias, mean, rstd}; }
};

// y = norm(x), [rows, C] of x, [own, C]; writes the norm's mean and rstd. All rows of y, where the ranks have
// some each.
absl::Status NormForward(Ops& ops, const PassShape& shape, const Norm& norm, const Slice& x, const Slice& y);

// dx, stored as said, is the gradient through the norm of dy; adds to the parameters' gradients, of the own
// rows. dy is [rows, C], of which the own rows are read, the others [own, C].
absl::Status NormBackward(Ops& ops, const PassShape& shape, const Norm& norm, const Norm& gradient,
                          const Slice& x, const Slice& dy, const Slice& dx, Store store_dx);

// Parameters, or their gradients, of one branch. Without biases: empty.
struct BranchTensors {
  Norm norm;
  Slice in_weight, in_bias, out_weight, out_bias;  // weights as the family's WeightOrder says

  static BranchTensors Of(const ParameterArena& arena, ParameterArena::Part part, LayerId layer, int branch);
};

// What a branch's backward needs of its forward: kept by each micro-batch (StashBytes), or where a layer is
// made again (RecomputedBytes).
struct BranchStash {
  Norm norm;
  Slice inner;        // [rows, I]: what `in` made, queries and keys turned
  Slice attended;     // [rows, W]: the output of attention; other cores' is made again
  Slice log_sum_exp;  // [batch, H, sequence], of attention
  Slice stream;       // [own, C]: the residual stream behind the branch

  // `made_again` is a layer's; null where all is kept. The stream behind a layer's last branch is kept anyway.
  static BranchStash Of(const PassShape& shape, const BranchKind& kind, bool is_last, Carver& kept,
                        Carver* made_again);
};

// Of a micro-batch's stash or scratch, what is of the rows `part`.
BranchStash RowsOf(const PassShape& shape, const BranchStash& stash, const RowRange& part);

// Scratch that the passes of all blocks share, whatever the size of their micro-batches.
struct Workspace {
  Slice cosine, sine;     // [sequence, D / 2], rotary positions only; RotaryAngles (rotary.h), written once
  Slice normed;           // [rows, C]; also what is scattered or gathered of the stream
  Slice core_gradient;    // [rows, WidestCoreGradient]; also the gradient of `normed`
  Slice stream_gradient;  // [own, C]
  Slice activated;        // [rows, WidestActivated]
  Slice inner_gradient;   // [rows, WidestInner]
  // Of a head that several ranks share.
  Slice statistics;   // [ranks + 1, rows]: the log-sum-exp of each one's logits, the target's logit
  Slice log_sum_exp;  // [rows], of all

  static Workspace Of(const PassShape& shape, absl::Span<const BlockRange> chunks, Carver& carver);
};
// What the passes of one part use of it while others are summed.
Workspace RowsOf(const PassShape& shape, const Workspace& workspace, const RowRange& part);

// What a product does beside multiplying.
struct FusedEpilogue {
  Epilogue epilogue = Epilogue::kNone;
  Slice pre_activation;
};

// Has `x` become its sum over the ranks (SumRows), and then, before anything else is submitted of the same rows, `then` submitted:
// now, or later.
using SumThen = absl::FunctionRef<absl::Status(const Slice& x, std::function<absl::Status()> then)>;

// One branch of one layer on one rank. Its passes, for each micro-batch: forward, then the input's gradient, then at any time later
// WeightGradient; or forward, then Backward, which is both, to the same bits. The first two are three steps each, of all rows or
// of one part after another; but the core's of what joins rows, which is of whole sequences.
// The sums of a pass go by `sum`; what else it submits does not need what comes of them.
class Branch {
 public:
  Branch(const ParameterArena& arena, const PassShape& shape, LayerId layer, int branch);
  // The same branch of a part of the rows, whose slices the passes are then given.
  Branch(const Branch& whole, const PassShape& part);
  const BranchKind& kind() const { return kind_; }

  // Whether what the core makes of a row depends on others of its sequence.
  bool core_joins_rows() const { return kind_.core == CoreKind::kAttention; }

  // y = x + branch(x), keeping in `stash` what backward needs: from x to what `in` makes, from there to what the core makes
  // (of attention without its output, unless it `attends`: that was kept), and from there to y.
  absl::Status MakeInner(Ops& ops, const Slice& x, const BranchStash& stash, const Workspace& work) const;
  absl::Status MakeCore(Ops& ops, const BranchStash& stash, const Workspace& work, bool attends) const;
  absl::Status AddToStream(Ops& ops, const Slice& x, const Slice& y, const BranchStash& stash,
                           const Workspace& work, SumThen sum) const;

  // The ranks sum what each has added to the gradients of the norm's parameters, where it is of its own rows.
  absl::Status JoinNormGradient() const;

  // Of the residual stream, before and behind the branch; [own, C]. They may be the same slice if the
  // gradient of the weights is not to come later.
  struct StreamGradients {
    Slice dx, dy;
  };
  // The gradients of what the core makes and of what it takes, both [rows, width].
  struct CoreGradients {
    Slice made, inner;
  };
  // From dy to the gradient of what the core makes, from there to that of what `in` made, which WeightGradient needs beside dy,
  // and from there to dx, adding to the gradients of the norm's parameters.
  absl::Status MadeGradient(Ops& ops, const Slice& dy, const CoreGradients& core, const BranchStash& stash,
                            const Workspace& work) const;
  absl::Status InnerGradient(Ops& ops, const CoreGradients& core, const BranchStash& stash,
                             const Workspace& work) const;
  absl::Status NormGradient(Ops& ops, const Slice& x, const StreamGradients& gradients,
                            const Slice& inner_gradient, const BranchStash& stash, const Workspace& work,
                            SumThen sum) const;
  // Adds to the gradients of the two linear maps.
  absl::Status WeightGradient(Ops& ops, const Slice& x, const Slice& dy, const Slice& inner_gradient,
                              const BranchStash& stash, const Workspace& work) const;
  absl::Status Backward(Ops& ops, const Slice& x, const StreamGradients& gradients, const BranchStash& stash,
                        const Workspace& work, SumThen sum) const;

 private:
  // A linear map of rows: y = x weight (+ bias).
  struct Linear {
    Slice weight, bias;
    int64_t inputs = 0, outputs = 0;
  };
  absl::Status Apply(Ops& ops, const Linear& map, const Slice& in, const Slice& out,
                     const FusedEpilogue& fused = {}) const;
  // in_gradient = gradient through `map` of out_gradient.
  absl::Status ApplyBack(Ops& ops, const Linear& map, const Slice& out_gradient, const Slice& in_gradient,
                         const FusedEpilogue& fused = {}) const;
  // Adds to `gradient`, of a map's weight and bias.
  absl::Status AddWeightGradient(Ops& ops, const Linear& gradient, const Slice& in,
                                 const Slice& out_gradient) const;
  Linear In(const BranchTensors& tensors) const;
  Linear Out(const BranchTensors& tensors) const;
  absl::Status Turn(Ops& ops, const Slice& qkv, const Workspace& work, Rotation rotation) const;
  // What the core makes.
  const Slice& MadeIn(const BranchStash& stash, const Workspace& work) const {
    return core_joins_rows() ? stash.attended : work.activated;
  }
  // The output of a core other than attention.
  absl::Status Activate(Ops& ops, const BranchStash& stash, const Slice& activated) const;
  // WeightGradient with all rows of dy, which may lie in work.normed.
  absl::Status AddWeightGradients(Ops& ops, const Slice& x, const Slice& all_dy, const Slice& inner_gradient,
                                  const BranchStash& stash, const Workspace& work) const;
  // MadeGradient with all rows of dy.
  absl::Status MadeGradientOf(Ops& ops, const Slice& all_dy, const CoreGradients& core,
                              const BranchStash& stash) const;

  const Family& family_;
  const BranchKind& kind_;
  const PassShape shape_;
  const int64_t inner_, core_;  // widths
  const BranchTensors parameters_, gradients_;
};

}  // namespace medley
