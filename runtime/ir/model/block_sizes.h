#pragma once
#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/model/family.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/model/row_counts.h"

// What the passes of a block keep, need and compute, of one micro-batch on one rank: functions of the
// rank's own sizes (LocalModel), the family's table and the type that activations are stored in. The planner
// predicts by them and the worker allocates by them. Each tensor takes TensorBytes.
namespace medley {

// What a unit makes again of its layers, and of which ones: those of the blocks from `first` on.
struct LayersMadeAgain {
  Recompute what = Recompute::kNone;
  BlockId first = 0;
  // Nothing of what is no layer.
  Recompute Of(const ModelConfig& config, BlockId block) const {
    return block >= first && config.is_layer(block) ? what : Recompute::kNone;
  }
};
// Of the last `layers` layers of a unit with these chunks. 0, or as many as it has: of all.
LayersMadeAgain LastLayersMadeAgain(const ModelConfig& config, absl::Span<const BlockRange> chunks,
                                    Recompute what, int layers);

// Whose kept activations a unit has in host memory between forward and backward: of the blocks before `end`.
struct HomedBlocks {
  BlockId end = 0;
  // Of a range of blocks its first ones, maybe none.
  BlockRange Of(BlockRange blocks) const { return {blocks.first, std::clamp(end, blocks.first, blocks.end)}; }
  // The others.
  BlockRange StayingOf(BlockRange blocks) const { return {Of(blocks).end, blocks.end}; }
};
// Those of the first `layers` layers of a unit with these chunks, and what is before them. 0, or as many as it has: all.
HomedBlocks FirstLayersHomed(const ModelConfig& config, absl::Span<const BlockRange> chunks, int layers);

// Kept from forward to backward by `block`, of `rows`, which are windows * sequence tokens, the block's
// output included. Of norms and the residual stream it is the rank's own rows.
Bytes StashBytes(const ModelConfig& config, BlockId block, const RowCounts& rows, Dtype activations,
                 Recompute recompute = Recompute::kNone);
// By all of `blocks`.
Bytes StashBytes(const ModelConfig& config, BlockRange blocks, const RowCounts& rows, Dtype activations,
                 const LayersMadeAgain& made_again = {});

// Where what is not kept of a layer is made, in forward and again before its backward: one layer of one
// micro-batch at a time.
Bytes RecomputedBytes(const ModelConfig& config, const RowCounts& rows, Dtype activations,
                      Recompute recompute);

// Kept from the gradient of `blocks`' input to that of their weights, where the two are passes of their own.
Bytes DeferredBytes(const ModelConfig& config, BlockRange blocks, const RowCounts& rows, Dtype activations);

// Scratch that the passes of `chunks` share, the rotary embedding's angles of `sequence` positions included,
// and what the `ranks` of the unit tell each other of a vocabulary that they share.
Bytes WorkspaceBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int sequence,
                     const RowCounts& rows, Dtype activations, int ranks = 1);
// Scratch in which ops widen what is stored in a narrower type than f32 (ConvertingOps), of all rows: nothing
// where both types are f32. `narrowest`: of the activations and of what crosses to other units.
Bytes ConversionBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int sequence,
                      int64_t rows, Dtype activations, Dtype narrowest);
// Scratch for the logits that a holder of the head has at a time (LogitsRows); nothing without the head.
Bytes LogitsBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t rows,
                  Dtype activations);
// Elements of activations that a device which multiplies a narrower type has rounded copies of, of one product
// at a time: of both operands, each as large as the largest. None where they are not stored as f32; logits are
// rounded where they lie.
int64_t RoundedElements(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t rows,
                        Dtype activations);
// Columns of the parts of it that are as wide as the widest branch asks.
int64_t WidestInner(const ModelConfig& config);         // gradient of what `in` makes
int64_t WidestActivated(const ModelConfig& config);     // what is made again of the core's output
int64_t WidestCoreGradient(const ModelConfig& config);  // gradient of the core's output, hidden at least

// Points between the branches of `blocks`: 0 is before the first one, the last is behind the last one. At
// each the residual stream, and its gradient, has a value.
struct StreamPoints {
  int branches = 0;
  bool has_embedding = false, has_head = false;
  // Whether the value at `point` comes from another stage, or goes there.
  bool enters(int point) const { return point == 0 && !has_embedding; }
  bool leaves(int point) const { return point == branches && !has_head; }
  bool travels(int point) const { return enters(point) || leaves(point); }
};
StreamPoints StreamPointsOf(const ModelConfig& config, BlockRange blocks);
// Whether one of `chunks` has a layer.
bool HaveLayer(const ModelConfig& config, absl::Span<const BlockRange> chunks);

// Weights and biases of the norms of `blocks`.
int64_t NormElements(const ModelConfig& config, BlockRange blocks);

struct PassWork {
  double flops = 0;  // of matrix products, a multiplication and an addition being two
  double bytes = 0;  // each f32 tensor that an op reads or writes counted once
};
struct BlockWork {
  PassWork forward, input_gradient, weight_gradient;
  PassWork backward() const;  // both gradients
};
// FLOPs of the `branch`-th branch over those of all of a layer's.
double BranchShare(const ModelConfig& config, int branch, int64_t sequence);
// Of a branch's FLOPs in forward, or in the gradient of its input: those of the linear map before its core, the core's, which is what
// joins rows, and those of the map behind.
struct StepShares {
  double before = 0, core = 0, behind = 0;
};
StepShares ForwardStepShares(const ModelConfig& config, int branch, int64_t sequence);
StepShares InputGradientStepShares(const ModelConfig& config, int branch, int64_t sequence);
// Of `batch` windows of `sequence` tokens. Attention counts the half of the scores that causality leaves.
BlockWork WorkOf(const ModelConfig& config, BlockId block, int64_t batch, int64_t sequence);
// FLOPs of making again what is not kept of a layer, over those of its forward; 0 where all is kept.
double RecomputedShare(const ModelConfig& config, int64_t batch, int64_t sequence, Recompute recompute);

}  // namespace medley
