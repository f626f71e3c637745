#include "runtime/engine/shard/chunk_passes.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

LayerId FirstLayerOf(BlockRange blocks) { return LayerOfBlock(std::max(blocks.first, BlockOfLayer(0))); }

}  // namespace

Slice BoundaryBuffers::Of(BufferId buffer, std::optional<Dtype> dtype) const {
  Slice slice = slices_[static_cast<int>(buffer.kind)][buffer.index];
  slice.dtype = dtype.value_or(slice.dtype);
  return slice;
}

ChunkPasses::ChunkPasses(const PassShape& shape, BlockRange blocks, const ChunkMemory& memory)
    : pass_(shape),
      blocks_(blocks),
      names_(OuterNamesOf(shape.config)),
      arena_(memory.arena),
      boundaries_(memory.boundaries),
      workspace_(memory.workspace),
      loss_sum_(memory.loss_sum),
      points_(StreamPointsOf(shape.config, blocks)) {
  for (int i = 0; i < points_.branches; ++i)
    branches_.emplace_back(arena_, pass_, FirstLayerOf(blocks) + i / kBranches, i % kBranches);
  for (const RowRange& rows : PartRows(pass_.batch, pass_.sequence, pass_.parts())) {
    PassedRows& part = parts_.emplace_back(PassedRows{rows, RowsOf(pass_, workspace_, rows), {}});
    for (const Branch& branch : branches_) part.branches.emplace_back(branch, PartOf(pass_, rows));
  }
  stash_ = CarveStashes(pass_.homed.StayingOf(blocks), memory.stash, memory.recomputed);
  leaving_stash_ = CarveStashes(pass_.homed.Of(blocks), memory.leaving_stash, memory.recomputed);
  CarveDeferred(memory.deferred);
  const SlotMemory& streams = memory.stream_gradients;
  for (int slot = 0; slot < streams.count; ++slot) {
    Carver carver(*streams.buffer, streams.offset + int64_t{slot} * streams.size);
    stream_gradients_.push_back(carver.Take(pass_.row_counts().own * pass_.config.hidden, pass_.activations));
  }
}

BlockId ChunkPasses::BlockOfBranch(int i) const {
  return BlockOfLayer(FirstLayerOf(blocks_) + i / kBranches);
}

std::vector<ChunkPasses::Stash> ChunkPasses::CarveStashes(BlockRange kept_blocks, const SlotMemory& memory,
                                                          const SlotMemory& recomputed) const {
  std::vector<Stash> stashes;
  for (int slot = 0; slot < memory.count; ++slot) {
    Carver carver(*memory.buffer, memory.offset + int64_t{slot} * memory.size);
    Stash& kept = stashes.emplace_back();
    if (kept_blocks.contains(pass_.config.embedding_block())) {
      kept.tokens = carver.Take(pass_.rows(), Dtype::kI32);
      kept.embedded = carver.Take(pass_.own().size() * pass_.config.hidden, pass_.activations);
    }
    std::optional<Carver> made_again;  // one layer at a time
    for (int i = 0; i < points_.branches; ++i) {
      const BlockId layer = BlockOfBranch(i);
      if (!kept_blocks.contains(layer)) {
        kept.branches.emplace_back();
        continue;
      }
      if (i % kBranches == 0) {
        made_again.reset();
        if (pass_.made_again.Of(pass_.config, layer) != Recompute::kNone && recomputed.count > 0)
          made_again.emplace(*recomputed.buffer, recomputed.offset);
      }
      kept.branches.push_back(BranchStash::Of(pass_, branches_[i].kind(), i % kBranches == kBranches - 1,
                                              carver, made_again.has_value() ? &*made_again : nullptr));
    }
    if (kept_blocks.contains(pass_.config.head_block())) {
      kept.targets = carver.Take(pass_.rows(), Dtype::kI32);
      kept.head = Norm::Kept(pass_, carver);
    }
  }
  return stashes;
}

void ChunkPasses::CarveDeferred(const SlotMemory& memory) {
  for (int slot = 0; slot < memory.count; ++slot) {
    Carver carver(*memory.buffer, memory.offset + int64_t{slot} * memory.size);
    Deferred& deferred = deferred_.emplace_back();
    const auto take = [&](int64_t elements) { return carver.Take(elements, pass_.activations); };
    const int64_t of_stream = pass_.own().size() * pass_.config.hidden;
    for (const Branch& branch : branches_)
      deferred.inner_gradients.push_back(take(pass_.rows() * InnerWidth(pass_.config, branch.kind())));
    for (int point = 0; point <= points_.branches; ++point)
      deferred.stream_gradients.push_back(points_.travels(point) ? Slice{} : take(of_stream));
  }
}

Slice ChunkPasses::BoundaryOf(BufferKind kind, const Boundary& boundary) const {
  Slice slice = boundaries_.Of({kind, boundary.index}, boundary.dtype);
  slice.elements = pass_.own().size() * pass_.config.hidden;
  return slice;
}

Slice ChunkPasses::StreamAt(int point, const PassBuffers& buffers) const {
  if (points_.leaves(point)) return BoundaryOf(BufferKind::kOutput, buffers.output);
  if (points_.enters(point)) return BoundaryOf(BufferKind::kInput, buffers.input);
  return point == 0 ? StashOf(pass_.config.embedding_block(), buffers).embedded
                    : StashOfBranch(point - 1, buffers).stream;
}

// Where both gradients are one pass, the stream's stays in one place once it has arrived: the one from which
// it leaves, if it does as this rank stores it.
Slice ChunkPasses::GradientAt(int point, const PassBuffers& buffers) const {
  const Boundary& leaves = buffers.input_gradient;
  if (points_.leaves(point)) return BoundaryOf(BufferKind::kOutputGradient, buffers.output_gradient);
  if (!points_.enters(point) && buffers.deferred >= 0)
    return deferred_[buffers.deferred].stream_gradients[point];
  if (points_.enters(point) ||
      (!points_.has_embedding && leaves.dtype.value_or(pass_.activations) == pass_.activations))
    return BoundaryOf(BufferKind::kInputGradient, leaves);
  return buffers.stream_gradient >= 0 ? stream_gradients_[buffers.stream_gradient]
                                      : workspace_.stream_gradient;
}

absl::Status ChunkPasses::Forward(Ops& ops, const PassBuffers& buffers, BlockRange piece,
                                  Purpose purpose) const {
  PartSums sums(pass_);
  for (BlockId block = piece.first; block < piece.end; ++block) {
    if (block == pass_.config.embedding_block()) {
      RETURN_IF_ERROR(EmbeddingForward(ops, buffers, sums));
    } else if (block == pass_.config.head_block()) {
      if (purpose == Purpose::kTrain) continue;
      RETURN_IF_ERROR(sums.AwaitAll());
      RETURN_IF_ERROR(HeadForward(ops, buffers));
    } else {
      const int first = kBranches * (LayerOfBlock(block) - FirstLayerOf(blocks_));
      for (int i = first; i < first + kBranches; ++i) RETURN_IF_ERROR(BranchForward(ops, buffers, i, sums));
    }
  }
  return sums.AwaitAll();
}

template <typename Before, typename Core, typename Behind>
absl::Status ChunkPasses::InParts(const PassBuffers& buffers, int i, PartSums& sums, const Before& before,
                                  const Core& core, const Behind& behind) const {
  const BranchStash& stash = StashOfBranch(i, buffers);
  const auto rows_of = [&](int p) {
    const PassedRows& part = parts_[p];
    return BranchRows{part.branches[i], part.rows, RowsOf(pass_, stash, part.rows), part.workspace};
  };
  const bool joins_parts = JoinsParts(i);
  for (int p = 0; p < sums.parts(); ++p) {
    RETURN_IF_ERROR(sums.Await(p));
    const BranchRows part = rows_of(p);
    RETURN_IF_ERROR(before(part));
    if (joins_parts) continue;
    RETURN_IF_ERROR(core(part));
    RETURN_IF_ERROR(behind(part, sums.Of(p)));
  }
  if (!joins_parts) return absl::OkStatus();
  RETURN_IF_ERROR(core(BranchRows{branches_[i], {0, pass_.rows()}, stash, workspace_}));
  for (int p = 0; p < sums.parts(); ++p) RETURN_IF_ERROR(behind(rows_of(p), sums.Of(p)));
  return absl::OkStatus();
}

absl::Status ChunkPasses::MakeBranch(Ops& ops, const PassBuffers& buffers, int i, bool attends,
                                     const Slice& y, PartSums& sums) const {
  const Slice x = StreamAt(i, buffers);
  return InParts(
      buffers, i, sums,
      [&](const BranchRows& of) {
        return of.branch.MakeInner(ops, RowsOf(pass_, x, of.rows), of.stash, of.workspace);
      },
      [&](const BranchRows& of) { return of.branch.MakeCore(ops, of.stash, of.workspace, attends); },
      [&](const BranchRows& of, SumThen sum) {
        if (y.empty()) return absl::OkStatus();
        return of.branch.AddToStream(ops, RowsOf(pass_, x, of.rows), RowsOf(pass_, y, of.rows), of.stash,
                                     of.workspace, sum);
      });
}

absl::Status ChunkPasses::BranchForward(Ops& ops, const PassBuffers& buffers, int i, PartSums& sums) const {
  return MakeBranch(ops, buffers, i, /*attends=*/true, StreamAt(i + 1, buffers), sums);
}

absl::Status ChunkPasses::BranchMakeAgain(Ops& ops, const PassBuffers& buffers, int i, bool is_last,
                                          PartSums& sums) const {
  // What is behind the last one has been kept.
  return MakeBranch(ops, buffers, i, pass_.made_again.what == Recompute::kLayers,
                    is_last ? Slice{} : StreamAt(i + 1, buffers), sums);
}

absl::Status ChunkPasses::BranchInputGradient(Ops& ops, const PassBuffers& buffers, int i,
                                              const Slice& inner_gradient, PartSums& sums) const {
  const Slice x = StreamAt(i, buffers), dx = GradientAt(i, buffers), dy = GradientAt(i + 1, buffers);
  const bool joins_parts = JoinsParts(i);
  const Slice made =
      workspace_.core_gradient.Sub(0, pass_.rows() * CoreWidth(pass_.config, branches_[i].kind()));
  const auto core_of = [&](const BranchRows& of) {
    // Parts that are joined lie one behind the other; they end before those begin whose sums are still under way.
    return Branch::CoreGradients{
        .made = joins_parts ? RowsOf(pass_, made, of.rows) : of.workspace.core_gradient,
        .inner = RowsOf(pass_, inner_gradient, of.rows)};
  };
  return InParts(
      buffers, i, sums,
      [&](const BranchRows& of) {
        return of.branch.MadeGradient(ops, RowsOf(pass_, dy, of.rows), core_of(of), of.stash, of.workspace);
      },
      [&](const BranchRows& of) { return of.branch.InnerGradient(ops, core_of(of), of.stash, of.workspace); },
      [&](const BranchRows& of, SumThen sum) {
        return of.branch.NormGradient(ops, RowsOf(pass_, x, of.rows),
                                      {.dx = RowsOf(pass_, dx, of.rows), .dy = RowsOf(pass_, dy, of.rows)},
                                      RowsOf(pass_, inner_gradient, of.rows), of.stash, of.workspace, sum);
      });
}

// The gradients of the weights are of all rows at once: they need no sum, and are there to compute while the last
// part's is made.
absl::Status ChunkPasses::BranchBackward(Ops& ops, const PassBuffers& buffers, int i, PartSums& sums) const {
  const BranchStash& stash = StashOfBranch(i, buffers);
  const Slice x = StreamAt(i, buffers), dy = GradientAt(i + 1, buffers);
  if (sums.parts() == 1) {
    RETURN_IF_ERROR(sums.Await(0));
    return branches_[i].Backward(ops, x, {.dx = GradientAt(i, buffers), .dy = dy}, stash, workspace_,
                                 sums.Of(0));
  }
  const Slice inner_gradient =
      workspace_.inner_gradient.Sub(0, pass_.rows() * InnerWidth(pass_.config, branches_[i].kind()));
  RETURN_IF_ERROR(BranchInputGradient(ops, buffers, i, inner_gradient, sums));
  return branches_[i].WeightGradient(ops, x, dy, inner_gradient, stash, workspace_);
}

Slice ChunkPasses::Outer(Part part, const std::string& name) const {
  return name.empty() ? Slice{} : arena_.Tensor(part, name);
}

Norm ChunkPasses::FinalNorm(Part part, const Norm& kept) const {
  return kept.With({Outer(part, names_.final_norm_weight), Outer(part, names_.final_norm_bias), {}, {}});
}

// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019, section 3): the logits stay where they are, and the
// ranks exchange two numbers a row. They are made a second time for the gradients, which need the sum over
// the whole vocabulary.
absl::Status ChunkPasses::SharedHeadLoss(Ops& ops, const Stash& stash, const Slice& normed_gradient,
                                         float token_weight) const {
  const int64_t rows = pass_.rows();
  const int ranks = pass_.ranks, member = pass_.group->member();
  const Slice weight = Outer(Part::kParameter, names_.head), targets = stash.targets;
  const Slice& statistics = workspace_.statistics;
  RETURN_IF_ERROR(ops.Fill({.x = statistics, .elements = statistics.elements, .value = 0}));
  RETURN_IF_ERROR(ops.HeadStatistics({.x = workspace_.normed,
                                      .weight = weight,
                                      .targets = targets,
                                      .log_sum_exp = statistics.Sub(member * rows, rows),
                                      .target_logit = statistics.Sub(ranks * rows, rows),
                                      .rows = rows,
                                      .columns = pass_.config.hidden,
                                      .first_token = pass_.first_token,
                                      .vocabulary = pass_.config.vocabulary,
                                      .precision = pass_.precision}));
  RETURN_IF_ERROR(pass_.group->Sum(statistics));
  // One of the ranks counts the loss.
  RETURN_IF_ERROR(ops.JoinHeadStatistics({.statistics = statistics,
                                          .log_sum_exp = workspace_.log_sum_exp,
                                          .loss_sum = member == 0 ? loss_sum_ : Slice{},
                                          .members = ranks,
                                          .rows = rows}));
  if (normed_gradient.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ops.HeadGradient({.x = workspace_.normed,
                                    .weight = weight,
                                    .targets = targets,
                                    .log_sum_exp = workspace_.log_sum_exp,
                                    .dx = normed_gradient,
                                    .dweight = Outer(Part::kGradient, names_.head),
                                    .rows = rows,
                                    .columns = pass_.config.hidden,
                                    .first_token = pass_.first_token,
                                    .vocabulary = pass_.config.vocabulary,
                                    .gradient_scale = token_weight,
                                    .precision = pass_.precision}));
  return SumRows(pass_, normed_gradient);
}

absl::Status ChunkPasses::HeadLoss(Ops& ops, const Stash& stash, const Slice& normed_gradient,
                                   float token_weight) const {
  if (pass_.group != nullptr) return SharedHeadLoss(ops, stash, normed_gradient, token_weight);
  return ops.HeadLoss({.x = workspace_.normed,
                       .weight = Outer(Part::kParameter, names_.head),
                       .targets = stash.targets,
                       .loss_sum = loss_sum_,
                       .dx = normed_gradient,
                       .dweight = normed_gradient.empty() ? Slice{} : Outer(Part::kGradient, names_.head),
                       .rows = pass_.rows(),
                       .columns = pass_.config.hidden,
                       .vocabulary = pass_.config.vocabulary,
                       .gradient_scale = token_weight,
                       .precision = pass_.precision});
}

absl::Status ChunkPasses::HeadForward(Ops& ops, const PassBuffers& buffers) const {
  const Stash& stash = StashOf(pass_.config.head_block(), buffers);
  RETURN_IF_ERROR(NormForward(ops, pass_, FinalNorm(Part::kParameter, stash.head),
                              StreamAt(points_.branches, buffers), workspace_.normed));
  return HeadLoss(ops, stash, {}, 1);
}

absl::Status ChunkPasses::HeadBackward(Ops& ops, const PassBuffers& buffers, float token_weight) const {
  const Slice input = StreamAt(points_.branches, buffers);
  const Stash& stash = StashOf(pass_.config.head_block(), buffers);
  const Slice normed_gradient = workspace_.core_gradient.Sub(0, pass_.rows() * pass_.config.hidden);
  RETURN_IF_ERROR(NormForward(ops, pass_, FinalNorm(Part::kParameter, stash.head), input, workspace_.normed));
  RETURN_IF_ERROR(HeadLoss(ops, stash, normed_gradient, token_weight));
  return NormBackward(ops, pass_, FinalNorm(Part::kParameter, stash.head),
                      FinalNorm(Part::kGradient, stash.head), input, normed_gradient,
                      GradientAt(points_.branches, buffers), Store::kOverwrite);
}

absl::Status ChunkPasses::EmbeddingForward(Ops& ops, const PassBuffers& buffers, PartSums& sums) const {
  const Slice stream = StreamAt(0, buffers);
  const Slice y = pass_.sequence_parallel ? workspace_.normed : stream;
  const bool adds_positions = pass_.group == nullptr || pass_.group->member() == 0;  // one of the ranks
  const Slice positions = adds_positions ? Outer(Part::kParameter, names_.position_embedding) : Slice{};
  RETURN_IF_ERROR(ops.EmbeddingForward({.tokens = StashOf(pass_.config.embedding_block(), buffers).tokens,
                                        .token_embedding = Outer(Part::kParameter, names_.token_embedding),
                                        .position_embedding = positions,
                                        .y = y,
                                        .batch = pass_.batch,
                                        .sequence = pass_.sequence,
                                        .columns = pass_.config.hidden,
                                        .first_token = pass_.first_token,
                                        .vocabulary = pass_.config.vocabulary}));
  if (pass_.sequence_parallel) {
    const Slice own = OwnRows(pass_, y);
    return sums.Sum(
        0, y, [&ops, own, stream] { return ops.Cast({.x = own, .y = stream, .elements = stream.elements}); });
  }
  for (int part = 0; part < sums.parts(); ++part)
    RETURN_IF_ERROR(sums.Sum(part, sums.RowsOf(part, y), nullptr));
  return absl::OkStatus();
}

absl::Status ChunkPasses::EmbeddingBackward(Ops& ops, const PassBuffers& buffers) const {
  Slice dy;
  RETURN_IF_ERROR(AllRows(ops, pass_, GradientAt(0, buffers), workspace_.normed, dy));
  return ops.EmbeddingBackward({.tokens = StashOf(pass_.config.embedding_block(), buffers).tokens,
                                .dy = dy,
                                .d_token_embedding = Outer(Part::kGradient, names_.token_embedding),
                                .d_position_embedding = Outer(Part::kGradient, names_.position_embedding),
                                .batch = pass_.batch,
                                .sequence = pass_.sequence,
                                .columns = pass_.config.hidden,
                                .first_token = pass_.first_token,
                                .vocabulary = pass_.config.vocabulary});
}

template <typename OfHead, typename OfBranch, typename OfEmbedding>
absl::Status ChunkPasses::GoBack(BlockRange piece, const OfHead& of_head, const OfBranch& of_branch,
                                 const OfEmbedding& of_embedding) const {
  for (int block = piece.end - 1; block >= piece.first; --block) {
    if (block == pass_.config.head_block()) {
      RETURN_IF_ERROR(of_head());
    } else if (block == pass_.config.embedding_block()) {
      RETURN_IF_ERROR(of_embedding());
    } else {
      const int first = kBranches * (LayerOfBlock(block) - FirstLayerOf(blocks_));
      for (int i = first + kBranches - 1; i >= first; --i) RETURN_IF_ERROR(of_branch(i));
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkPasses::MakeAgain(Ops& ops, const PassBuffers& buffers, BlockRange piece) const {
  PartSums sums(pass_);
  const int first = kBranches * (LayerOfBlock(piece.first) - FirstLayerOf(blocks_));
  for (int i = first; i < first + kBranches; ++i)
    RETURN_IF_ERROR(BranchMakeAgain(ops, buffers, i, i + 1 == first + kBranches, sums));
  return sums.AwaitAll();
}

absl::Status ChunkPasses::Backward(Ops& ops, const PassBuffers& buffers, BlockRange piece,
                                   float token_weight) const {
  PartSums sums(pass_);
  RETURN_IF_ERROR(GoBack(
      piece, [&] { return HeadBackward(ops, buffers, token_weight); },
      [&](int i) { return BranchBackward(ops, buffers, i, sums); },
      [&]() -> absl::Status {
        RETURN_IF_ERROR(sums.AwaitAll());
        return EmbeddingBackward(ops, buffers);
      }));
  return sums.AwaitAll();
}

absl::Status ChunkPasses::InputGradient(Ops& ops, const PassBuffers& buffers, float token_weight) const {
  PartSums sums(pass_);
  RETURN_IF_ERROR(GoBack(
      blocks_, [&] { return HeadBackward(ops, buffers, token_weight); },
      [&](int i) {
        return BranchInputGradient(ops, buffers, i, deferred_[buffers.deferred].inner_gradients[i], sums);
      },
      [] { return absl::OkStatus(); }));
  return sums.AwaitAll();
}

absl::Status ChunkPasses::WeightGradient(Ops& ops, const PassBuffers& buffers, BlockRange piece) const {
  return GoBack(
      piece, [] { return absl::OkStatus(); },
      [&](int i) {
        return branches_[i].WeightGradient(ops, StreamAt(i, buffers), GradientAt(i + 1, buffers),
                                           deferred_[buffers.deferred].inner_gradients[i],
                                           StashOfBranch(i, buffers), workspace_);
      },
      [&] { return EmbeddingBackward(ops, buffers); });
}

absl::Status ChunkPasses::JoinGradients(BlockRange piece) const {
  if (!pass_.sequence_parallel) return absl::OkStatus();
  return GoBack(
      piece, [&] { return pass_.group->Sum(FinalNorm(Part::kGradient, {}).parameters()); },
      [&](int i) { return branches_[i].JoinNormGradient(); }, [] { return absl::OkStatus(); });
}

}  // namespace medley
