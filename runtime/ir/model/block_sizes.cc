#include "runtime/ir/model/block_sizes.h"

#include <algorithm>

#include "runtime/base/op_scratch.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

bool IsAttention(const BranchKind& branch) { return branch.core == CoreKind::kAttention; }

// What a norm keeps of a row.
int64_t Statistics(const Family& family) { return family.norm == NormKind::kLayerNorm ? 2 : 1; }

template <typename Width>
int64_t Widest(const ModelConfig& config, const Width& width) {
  int64_t widest = 0;
  for (const BranchKind& branch : FamilyOf(config).branches) widest = std::max(widest, width(branch));
  return widest;
}

PassWork operator+(PassWork a, PassWork b) { return {a.flops + b.flops, a.bytes + b.bytes}; }

// y[rows, n] = x[rows, k] w, and its two gradients, each of as much work.
PassWork Product(double rows, double k, double n) {
  return {2 * rows * k * n, 4 * (rows * k + k * n + rows * n)};
}

PassWork Elements(double elements) { return {0, 4 * elements}; }

// Tensors of f32; the ops of Branch, in their order.
BlockWork WorkOfBranch(const ModelConfig& c, const BranchKind& branch, double rows, double sequence) {
  const double C = c.hidden, inner = static_cast<double>(InnerWidth(c, branch)),
               core = static_cast<double>(CoreWidth(c, branch));
  const PassWork products = Product(rows, C, inner) + Product(rows, core, C);
  const PassWork norm = Elements(2 * rows * C), add = Elements(3 * rows * C);
  // Scores and their product with the values; backward makes the scores again, and three more gradients.
  const double scores = IsAttention(branch) ? rows * sequence * core : 0;
  // A GELU is a part of the products around it: it writes its output, and reads its input for the gradient.
  const bool fused = branch.core == CoreKind::kGelu;
  const PassWork core_forward = {2 * scores, 4 * rows * (fused ? core : inner + core)};
  const PassWork core_backward = {5 * scores, 4 * rows * (fused ? inner : 2 * (inner + core))};
  const PassWork again = norm + (IsAttention(branch) ? PassWork{} : Elements(rows * (inner + core)));
  return {.forward = products + norm + core_forward + add,
          .input_gradient = products + core_backward + Elements(3 * rows * C) + add,
          .weight_gradient = products + again};
}

}  // namespace

PassWork BlockWork::backward() const { return input_gradient + weight_gradient; }

StreamPoints StreamPointsOf(const ModelConfig& config, BlockRange blocks) {
  const int layers = std::min(blocks.end, config.head_block()) - std::max(blocks.first, BlockOfLayer(0));
  return {.branches = kBranches * std::max(layers, 0),
          .has_embedding = blocks.contains(config.embedding_block()),
          .has_head = blocks.contains(config.head_block())};
}

bool HaveLayer(const ModelConfig& config, absl::Span<const BlockRange> chunks) {
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const BlockRange& blocks) { return StreamPointsOf(config, blocks).branches > 0; });
}

int64_t NormElements(const ModelConfig& c, BlockRange blocks) {
  const StreamPoints points = StreamPointsOf(c, blocks);
  return (points.branches + (points.has_head ? 1 : 0)) * int64_t{c.hidden} *
         (HasBias(FamilyOf(c).norm) ? 2 : 1);
}

Bytes StashBytes(const ModelConfig& c, BlockId block, const RowCounts& rows, Dtype activations,
                 Recompute recompute) {
  const Family& family = FamilyOf(c);
  const Bytes norm = Statistics(family) * TensorBytes(rows.own, Dtype::kF32),
              stream = TensorBytes(rows.own * c.hidden, activations);
  const auto tensor = [&](int64_t columns) { return TensorBytes(rows.all * columns, activations); };
  if (block == c.embedding_block()) return TensorBytes(rows.all, Dtype::kI32) + stream;
  // Targets, norm; its pass is all in backward.
  if (block == c.head_block()) return TensorBytes(rows.all, Dtype::kI32) + norm;
  Bytes bytes;
  for (const BranchKind& branch : family.branches) {
    if (recompute == Recompute::kNone) bytes += norm + tensor(InnerWidth(c, branch)) + stream;
    if (IsAttention(branch) && recompute != Recompute::kLayers)
      bytes += tensor(CoreWidth(c, branch)) + TensorBytes(rows.all * c.heads, Dtype::kF32);  // log-sum-exp
  }
  if (recompute != Recompute::kNone) bytes += stream;  // behind the last branch
  return bytes;
}

Bytes StashBytes(const ModelConfig& c, BlockRange blocks, const RowCounts& rows, Dtype activations,
                 const LayersMadeAgain& made_again) {
  Bytes bytes;
  for (BlockId block = blocks.first; block < blocks.end; ++block)
    bytes += StashBytes(c, block, rows, activations, made_again.Of(c, block));
  return bytes;
}

LayersMadeAgain LastLayersMadeAgain(const ModelConfig& config, absl::Span<const BlockRange> chunks,
                                    Recompute what, int layers) {
  LayersMadeAgain made_again{.what = what};
  if (what == Recompute::kNone || layers == 0) return made_again;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    for (BlockId block = chunk->end - 1; block >= chunk->first; block = block - 1) {
      if (!config.is_layer(block)) continue;
      made_again.first = block;
      if (--layers == 0) return made_again;
    }
  }
  return made_again;
}

HomedBlocks FirstLayersHomed(const ModelConfig& config, absl::Span<const BlockRange> chunks, int layers) {
  const HomedBlocks all{chunks.back().end};
  BlockId end = 0;
  int left = layers;
  for (const BlockRange& chunk : chunks) {
    for (BlockId block = chunk.first; block < chunk.end; ++block) {
      if (!config.is_layer(block)) continue;
      if (layers > 0 && left == 0) return {end};
      --left;
      end = block + 1;
    }
  }
  return all;
}

Bytes RecomputedBytes(const ModelConfig& c, const RowCounts& rows, Dtype activations, Recompute recompute) {
  const BlockId layer = BlockOfLayer(0);  // all are alike
  return StashBytes(c, layer, rows, activations) - StashBytes(c, layer, rows, activations, recompute);
}

Bytes DeferredBytes(const ModelConfig& c, BlockRange blocks, const RowCounts& rows, Dtype activations) {
  const StreamPoints points = StreamPointsOf(c, blocks);
  Bytes bytes;
  for (const BranchKind& branch : FamilyOf(c).branches)
    bytes +=
        int64_t{points.branches / kBranches} * TensorBytes(rows.all * InnerWidth(c, branch), activations);
  for (int point = 0; point <= points.branches; ++point) {
    if (!points.travels(point)) bytes += TensorBytes(rows.own * c.hidden, activations);
  }
  return bytes;
}

int64_t WidestInner(const ModelConfig& c) {
  return Widest(c, [&](const BranchKind& branch) { return InnerWidth(c, branch); });
}

int64_t WidestActivated(const ModelConfig& c) {
  return Widest(
      c, [&](const BranchKind& branch) { return IsAttention(branch) ? int64_t{0} : CoreWidth(c, branch); });
}

int64_t WidestCoreGradient(const ModelConfig& c) {
  // The GELU's gradient is a part of the product, so that there is none of its output.
  return std::max(int64_t{c.hidden}, Widest(c, [&](const BranchKind& branch) {
                    return branch.core == CoreKind::kGelu ? int64_t{0} : CoreWidth(c, branch);
                  }));
}

Bytes WorkspaceBytes(const ModelConfig& c, absl::Span<const BlockRange> chunks, int sequence,
                     const RowCounts& rows, Dtype activations, int ranks) {
  const auto tensor = [&](int64_t columns) { return TensorBytes(rows.all * columns, activations); };
  Bytes bytes = TensorBytes(rows.own * c.hidden, activations);  // gradient of the residual stream
  // Each rank's log-sum-exp of its logits and the target's logit; the log-sum-exp of all.
  if (Holds(chunks, c.head_block()) && ranks > 1)
    bytes += TensorBytes((ranks + 1) * rows.all, Dtype::kF32) + TensorBytes(rows.all, Dtype::kF32);
  // Normed input and its gradient.
  if (!HaveLayer(c, chunks)) return bytes + 2 * tensor(c.hidden);
  bytes +=
      tensor(c.hidden) + tensor(WidestCoreGradient(c)) + tensor(WidestActivated(c)) + tensor(WidestInner(c));
  if (FamilyOf(c).positions == PositionKind::kRotary)  // cosines and sines
    bytes += 2 * TensorBytes(int64_t{sequence} * c.size_of_head() / 2, Dtype::kF32);
  return bytes;
}

Bytes ConversionBytes(const ModelConfig& c, absl::Span<const BlockRange> chunks, int sequence, int64_t rows,
                      Dtype activations, Dtype narrowest) {
  if (narrowest == Dtype::kF32) return {};
  const auto wide = [&](int64_t columns) { return TensorBytes(rows * columns, Dtype::kF32); };
  const auto of_window = [&](int64_t columns) { return TensorBytes(sequence * columns, Dtype::kF32); };
  Bytes most = 3 * wide(c.hidden);  // of an addition, or of a norm's backward
  // What an op cannot be cut below: the embedding of a window, or its attention.
  Bytes least = of_window(c.hidden);
  if (HaveLayer(c, chunks) && activations != Dtype::kF32) {
    for (const BranchKind& branch : FamilyOf(c).branches) {
      const int64_t inner_width = InnerWidth(c, branch), core_width = CoreWidth(c, branch);
      const Bytes inner = wide(inner_width), core = wide(core_width);
      // Backward of the core, the first product with its activation, the second one's gradient with that of
      // it.
      for (const Bytes op : {2 * inner + 2 * core, wide(c.hidden) + inner + core, wide(c.hidden) + 2 * inner})
        most = std::max(most, op);
      if (IsAttention(branch))
        least = std::max(least, 2 * of_window(inner_width) + 2 * of_window(core_width));
    }
  }
  return std::min(most, std::max(kConversionPart, least));
}

Bytes LogitsBytes(const ModelConfig& c, absl::Span<const BlockRange> chunks, int64_t rows,
                  Dtype activations) {
  if (!Holds(chunks, c.head_block())) return {};
  return TensorBytes(LogitsRows(rows, c.vocabulary, activations) * LogitsStride(c.vocabulary), Dtype::kF32);
}

int64_t RoundedElements(const ModelConfig& c, absl::Span<const BlockRange> chunks, int64_t rows,
                        Dtype activations) {
  if (activations != Dtype::kF32) return 0;
  // Of the first operand and of the second: a gradient of weights has two that are no parameters, of which the
  // first is the one that the rows of the weights go with.
  int64_t first = 0, second = 0;
  if (Holds(chunks, c.head_block())) first = second = LogitsRows(rows, c.vocabulary, activations) * c.hidden;
  if (!HaveLayer(c, chunks)) return first + second;
  for (const BranchKind& branch : FamilyOf(c).branches) {
    const int64_t inner = InnerWidth(c, branch), core = CoreWidth(c, branch), hidden = c.hidden;
    const bool in_out = FamilyOf(c).weights == WeightOrder::kInOut;
    first = std::max(first, rows * std::max({hidden, inner, core}));
    second = std::max(second, rows * std::max(hidden, in_out ? inner : core));
  }
  return first + second;
}

double RecomputedShare(const ModelConfig& c, int64_t batch, int64_t sequence, Recompute recompute) {
  if (recompute == Recompute::kNone) return 0;
  const double rows = static_cast<double>(batch * sequence);
  double kept = 0, all = 0;
  for (const BranchKind& branch : FamilyOf(c).branches) {
    const double core = static_cast<double>(CoreWidth(c, branch));
    all += WorkOfBranch(c, branch, rows, static_cast<double>(sequence)).forward.flops;
    if (IsAttention(branch) && recompute == Recompute::kAllButAttention)
      kept += 2 * rows * static_cast<double>(sequence) * core;
    // What is behind the last branch is the layer's output.
    if (&branch == &FamilyOf(c).branches.back()) kept += Product(rows, core, c.hidden).flops;
  }
  return 1 - kept / all;
}

double BranchShare(const ModelConfig& c, int branch, int64_t sequence) {
  double all = 0, one = 0;
  for (int b = 0; b < kBranches; ++b) {
    const double flops =
        WorkOfBranch(c, FamilyOf(c).branches[b], 1, static_cast<double>(sequence)).forward.flops;
    all += flops;
    if (b == branch) one = flops;
  }
  return one / all;
}

StepShares ForwardStepShares(const ModelConfig& c, int branch, int64_t sequence) {
  const BranchKind& kind = FamilyOf(c).branches[branch];
  const double all = WorkOfBranch(c, kind, 1, static_cast<double>(sequence)).forward.flops;
  const double in = Product(1, c.hidden, static_cast<double>(InnerWidth(c, kind))).flops / all,
               out = Product(1, static_cast<double>(CoreWidth(c, kind)), c.hidden).flops / all;
  return {.before = in, .core = 1 - in - out, .behind = out};
}

StepShares InputGradientStepShares(const ModelConfig& c, int branch, int64_t sequence) {
  const BranchKind& kind = FamilyOf(c).branches[branch];
  const BlockWork work = WorkOfBranch(c, kind, 1, static_cast<double>(sequence));
  const StepShares forward = ForwardStepShares(c, branch, sequence);
  const double products = work.forward.flops / work.input_gradient.flops;
  const double before = products * forward.behind, behind = products * forward.before;
  return {.before = before, .core = 1 - before - behind, .behind = behind};
}

BlockWork WorkOf(const ModelConfig& c, BlockId block, int64_t batch, int64_t sequence) {
  const double rows = static_cast<double>(batch * sequence), C = c.hidden, V = c.vocabulary;
  if (block == c.embedding_block())
    return {.forward = Elements(2 * rows * C), .weight_gradient = Elements(3 * rows * C)};
  if (block == c.head_block()) {
    // All of it in one backward pass: the logits once, then both gradients.
    const PassWork product = Product(rows, C, V);
    return {.input_gradient = product + product + product + Elements(7 * rows * C)};
  }
  BlockWork work;
  for (const BranchKind& branch : FamilyOf(c).branches) {
    const BlockWork one = WorkOfBranch(c, branch, rows, static_cast<double>(sequence));
    work = {work.forward + one.forward, work.input_gradient + one.input_gradient,
            work.weight_gradient + one.weight_gradient};
  }
  return work;
}

}  // namespace medley
