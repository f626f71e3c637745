#include "runtime/engine/shard/model_shard.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/shard/rotary.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

absl::Span<const std::byte> AsBytes(absl::Span<const int32_t> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(int32_t)};
}

ModelShare ShareOf(const ShardOptions& options) {
  return options.share.value_or(WholeModel(options.shape.model));
}

RankMemory MemoryOf(const ShardOptions& options) {
  return medley::MemoryOf(LocalModel(options.shape.model, ShareOf(options)), options.shape.sequence,
                          {options.blocks}, options.micro_batch_sequences, options.buffers);
}

}  // namespace

BufferCounts BuffersOfOne(const ModelConfig& config, BlockRange blocks, Dtype activations) {
  const int before = blocks.contains(config.embedding_block()) ? 0 : 1,
            after = blocks.contains(config.head_block()) ? 0 : 1;
  return {.stash = {1},
          .input = before,
          .output = after,
          .input_gradient = before,
          .output_gradient = after,
          .activations = activations,
          .narrowest = activations};
}

ShardOptions ShardOptionsOf(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                            Precision precision) {
  return {.shape = shape,
          .blocks = plan.units[program.unit].chunks[0],
          .micro_batch_sequences = LargestMicroBatch(program.visits),
          .buffers = program.buffers,
          .precision = precision};
}

absl::StatusOr<std::unique_ptr<ModelShard>> ModelShard::Create(Device& device, const ShardOptions& options) {
  std::unique_ptr<ModelShard> shard(new ModelShard(device, options));
  shard->pass_ = {.config = LocalModel(options.shape.model, ShareOf(options)),
                  .batch = options.micro_batch_sequences,
                  .sequence = options.shape.sequence,
                  .precision = device.computes.For(options.precision),
                  .activations = options.buffers.activations,
                  .group = options.group};
  const absl::Status allocated = shard->Allocate();
  if (!allocated.ok()) {
    const RankMemory need = MemoryOf(options);
    return Annotate(
        allocated,
        absl::StrFormat("blocks %d-%d need %s (parameters, gradients and optimizer %s, "
                        "activations %s, boundaries %s, workspace %s) on %s",
                        options.blocks.first.value(), options.blocks.end - 1, FormatBytes(need.total()),
                        FormatBytes(need.parameters + need.gradients + need.optimizer),
                        FormatBytes(need.activations), FormatBytes(need.boundaries),
                        FormatBytes(need.workspace + need.conversions), device.queue->name()));
  }
  shard->Carve();
  RETURN_IF_ERROR(shard->WriteRotaryAngles());
  return shard;
}

absl::Status ModelShard::Allocate() {
  const RankMemory need = MemoryOf(options_);
  ASSIGN_OR_RETURN(
      arena_, ParameterArena::Create(device_, options_.shape.model, {options_.blocks}, ShareOf(options_)));
  ASSIGN_OR_RETURN(stash_buffer_, device_.queue->Allocate(need.activations));
  ASSIGN_OR_RETURN(boundary_buffer_, device_.queue->Allocate(need.boundaries));
  const Bytes scalars = ScalarBytes(pass_.config, {options_.blocks});
  scalars_.resize(scalars.value / 8);
  ASSIGN_OR_RETURN(workspace_buffer_, device_.queue->Allocate(need.workspace - scalars));
  ASSIGN_OR_RETURN(scalar_buffer_, device_.queue->Allocate(scalars));
  return absl::OkStatus();
}

void ModelShard::Carve() {
  const ModelConfig& config = pass_.config;
  const BlockRange blocks = options_.blocks;
  const int64_t rows = pass_.rows(), C = config.hidden;
  points_ = StreamPointsOf(config, blocks);
  for (int i = 0; i < points_.branches; ++i)
    branches_.emplace_back(
        *arena_, pass_, LayerOfBlock(std::max(blocks.first, BlockOfLayer(0))) + i / kBranches, i % kBranches);
  const Dtype type = options_.buffers.activations;
  Carver stash(*stash_buffer_);
  for (int slot = 0; slot < options_.buffers.stash[0]; ++slot) {
    Stash& kept = stash_.emplace_back();
    if (points_.has_embedding) {
      kept.tokens = stash.Take(rows, Dtype::kI32);
      kept.embedded = stash.Take(rows * C, type);
    }
    for (const Branch& branch : branches_)
      kept.branches.push_back(BranchStash::Of(pass_, branch.kind(), stash));
    if (points_.has_head) {
      kept.targets = stash.Take(rows, Dtype::kI32);
      kept.head = Norm::Kept(pass_, stash);
    }
  }
  for (int slot = 0; slot < options_.buffers.deferred[0]; ++slot) {
    Deferred& deferred = deferred_.emplace_back();
    for (const Branch& branch : branches_)
      deferred.inner_gradients.push_back(stash.Take(rows * InnerWidth(config, branch.kind()), type));
    for (int point = 0; point <= points_.branches; ++point) {
      deferred.stream_gradients.push_back(points_.travels(point) ? Slice{} : stash.Take(rows * C, type));
    }
  }
  Carver boundary(*boundary_buffer_);
  for (int kind = 0; kind < kBufferKinds; ++kind) {
    if (IsOfChunk(static_cast<BufferKind>(kind))) continue;
    const int count = options_.buffers.of(static_cast<BufferKind>(kind));
    for (int i = 0; i < count; ++i) boundaries_[kind].push_back(boundary.Take(rows * C, type));
  }
  Carver workspace(*workspace_buffer_);
  workspace_ = Workspace::Of(pass_, points_.branches > 0, workspace);
}

absl::Status ModelShard::WriteRotaryAngles() {
  if (workspace_.cosine.empty()) return absl::OkStatus();
  const RotaryAngles angles = RotaryAnglesOf(pass_.config, options_.shape.sequence);
  for (const auto& [values, to] :
       {std::pair(&angles.cosine, workspace_.cosine), std::pair(&angles.sine, workspace_.sine)}) {
    RETURN_IF_ERROR(
        device_.queue->Upload({reinterpret_cast<const std::byte*>(values->data()), values->size() * 4},
                              *to.buffer, {to.offset_bytes}));
  }
  return absl::OkStatus();
}

Slice ModelShard::BoundaryOf(BufferId buffer, std::optional<Dtype> dtype) const {
  Slice slice = boundaries_[static_cast<int>(buffer.kind)][buffer.index];
  slice.dtype = dtype.value_or(slice.dtype);
  return slice;
}

absl::Status ModelShard::SetTokens(int stash, absl::Span<const int32_t> tokens) {
  const Slice& to = stash_[stash].tokens;
  return device_.queue->Upload(AsBytes(tokens), *to.buffer, {to.offset_bytes});
}

absl::Status ModelShard::SetTargets(int stash, absl::Span<const int32_t> targets) {
  const Slice& to = stash_[stash].targets;
  return device_.queue->Upload(AsBytes(targets), *to.buffer, {to.offset_bytes});
}

Slice ModelShard::StreamAt(int point, const PassBuffers& buffers) const {
  if (points_.leaves(point))
    return BoundaryOf({BufferKind::kOutput, buffers.output.index}, buffers.output.dtype);
  if (points_.enters(point))
    return BoundaryOf({BufferKind::kInput, buffers.input.index}, buffers.input.dtype);
  const Stash& kept = stash_[buffers.stash];
  return point == 0 ? kept.embedded : kept.branches[point - 1].stream;
}

// Where both gradients are one pass, the stream's stays in one place once it has arrived: the one from which
// it leaves, if it does as this rank stores it.
Slice ModelShard::GradientAt(int point, const PassBuffers& buffers) const {
  const Boundary &arrives = buffers.output_gradient, &leaves = buffers.input_gradient;
  if (points_.leaves(point)) return BoundaryOf({BufferKind::kOutputGradient, arrives.index}, arrives.dtype);
  if (!points_.enters(point) && buffers.deferred >= 0)
    return deferred_[buffers.deferred].stream_gradients[point];
  if (points_.enters(point) ||
      (!points_.has_embedding && leaves.dtype.value_or(pass_.activations) == pass_.activations))
    return BoundaryOf({BufferKind::kInputGradient, leaves.index}, leaves.dtype);
  return workspace_.stream_gradient;
}

absl::Status ModelShard::Forward(const PassBuffers& buffers, Purpose purpose) {
  const Stash& kept = stash_[buffers.stash];
  if (points_.has_embedding) {
    RETURN_IF_ERROR(device_.ops->EmbeddingForward(
        {.tokens = kept.tokens,
         .token_embedding = Outer(Part::kParameter, names_.token_embedding),
         .position_embedding = Outer(Part::kParameter, names_.position_embedding),
         .y = StreamAt(0, buffers),
         .batch = pass_.batch,
         .sequence = pass_.sequence,
         .columns = pass_.config.hidden}));
  }
  for (int i = 0; i < points_.branches; ++i) {
    RETURN_IF_ERROR(branches_[i].Forward(*device_.ops, StreamAt(i, buffers), StreamAt(i + 1, buffers),
                                         kept.branches[i], workspace_));
  }
  if (!points_.has_head || purpose == Purpose::kTrain) return absl::OkStatus();
  return HeadForward(StreamAt(points_.branches, buffers), buffers.stash);
}

Slice ModelShard::Outer(Part part, const std::string& name) const {
  return name.empty() ? Slice{} : arena_->Tensor(part, name);
}

Norm ModelShard::FinalNorm(Part part, int stash) const {
  return stash_[stash].head.With(
      {Outer(part, names_.final_norm_weight), Outer(part, names_.final_norm_bias), {}, {}});
}

absl::Status ModelShard::HeadLoss(int stash, const Slice& normed_gradient) {
  // The step's loss is the mean over all its tokens, whatever the micro-batches.
  const double tokens = static_cast<double>(options_.shape.global_batch_sequences) * options_.shape.sequence;
  return device_.ops->HeadLoss(
      {.x = workspace_.normed,
       .weight = Outer(Part::kParameter, names_.head),
       .targets = stash_[stash].targets,
       .loss_sum = {scalar_buffer_.get(), 0, 1},
       .dx = normed_gradient,
       .dweight = normed_gradient.empty() ? Slice{} : Outer(Part::kGradient, names_.head),
       .rows = pass_.rows(),
       .columns = pass_.config.hidden,
       .vocabulary = pass_.config.vocabulary,
       .gradient_scale = static_cast<float>(loss_scale_ / tokens),
       .precision = pass_.precision});
}

absl::Status ModelShard::HeadForward(const Slice& input, int stash) {
  RETURN_IF_ERROR(
      NormForward(*device_.ops, pass_, FinalNorm(Part::kParameter, stash), input, workspace_.normed));
  return HeadLoss(stash, {});
}

absl::Status ModelShard::HeadBackward(const PassBuffers& buffers) {
  const Slice input = StreamAt(points_.branches, buffers);
  const int stash = buffers.stash;
  const Slice normed_gradient = workspace_.core_gradient.Sub(0, pass_.rows() * pass_.config.hidden);
  RETURN_IF_ERROR(
      NormForward(*device_.ops, pass_, FinalNorm(Part::kParameter, stash), input, workspace_.normed));
  RETURN_IF_ERROR(HeadLoss(stash, normed_gradient));
  return NormBackward(*device_.ops, pass_, FinalNorm(Part::kParameter, stash),
                      FinalNorm(Part::kGradient, stash), input, normed_gradient,
                      GradientAt(points_.branches, buffers), Store::kOverwrite);
}

absl::Status ModelShard::EmbeddingBackward(const PassBuffers& buffers) {
  return device_.ops->EmbeddingBackward(
      {.tokens = stash_[buffers.stash].tokens,
       .dy = GradientAt(0, buffers),
       .d_token_embedding = Outer(Part::kGradient, names_.token_embedding),
       .d_position_embedding = Outer(Part::kGradient, names_.position_embedding),
       .batch = pass_.batch,
       .sequence = pass_.sequence,
       .columns = pass_.config.hidden});
}

template <typename OfHead, typename OfBranch, typename OfEmbedding>
absl::Status ModelShard::GoBack(BlockRange blocks, const OfHead& of_head, const OfBranch& of_branch,
                                const OfEmbedding& of_embedding) {
  const ModelConfig& config = pass_.config;
  for (int block = blocks.end - 1; block >= blocks.first; --block) {
    if (block == config.head_block()) {
      RETURN_IF_ERROR(of_head());
    } else if (block == config.embedding_block()) {
      RETURN_IF_ERROR(of_embedding());
    } else {
      const int first = FirstBranchOf(block);
      for (int i = first + kBranches - 1; i >= first; --i) RETURN_IF_ERROR(of_branch(i));
    }
  }
  return absl::OkStatus();
}

absl::Status ModelShard::Backward(const PassBuffers& buffers, BlockRange blocks) {
  return GoBack(
      blocks, [&] { return HeadBackward(buffers); },
      [&](int i) {
        return branches_[i].Backward(*device_.ops, StreamAt(i, buffers),
                                     {.dx = GradientAt(i, buffers), .dy = GradientAt(i + 1, buffers)},
                                     stash_[buffers.stash].branches[i], workspace_);
      },
      [&] { return EmbeddingBackward(buffers); });
}

absl::Status ModelShard::InputGradient(const PassBuffers& buffers) {
  return GoBack(
      options_.blocks, [&] { return HeadBackward(buffers); },
      [&](int i) {
        return branches_[i].InputGradient(*device_.ops, StreamAt(i, buffers),
                                          {.dx = GradientAt(i, buffers), .dy = GradientAt(i + 1, buffers)},
                                          deferred_[buffers.deferred].inner_gradients[i],
                                          stash_[buffers.stash].branches[i], workspace_);
      },
      [] { return absl::OkStatus(); });
}

absl::Status ModelShard::WeightGradient(const PassBuffers& buffers, BlockRange blocks) {
  return GoBack(
      blocks, [] { return absl::OkStatus(); },
      [&](int i) {
        return branches_[i].WeightGradient(*device_.ops, StreamAt(i, buffers), GradientAt(i + 1, buffers),
                                           deferred_[buffers.deferred].inner_gradients[i],
                                           stash_[buffers.stash].branches[i], workspace_);
      },
      [&] { return EmbeddingBackward(buffers); });
}

size_t ModelShard::ScalarOf(SegmentId segment) const {
  const std::vector<SegmentId>& segments = arena_->layout().segments;
  return 1 + (std::find(segments.begin(), segments.end(), segment) - segments.begin());
}

absl::Status ModelShard::ComputeNorms(absl::Span<const SegmentId> segments) {
  for (const SegmentId segment : segments) {
    const Slice x = arena_->Segments(Part::kGradient, segment, segment + 1);
    const Slice out = {scalar_buffer_.get(), 8 * static_cast<int64_t>(ScalarOf(segment)), 1};
    RETURN_IF_ERROR(device_.ops->SquaredNorm({.x = x, .out = out, .elements = x.elements}));
  }
  return absl::OkStatus();
}

absl::Status ModelShard::FetchScalars() {
  RETURN_IF_ERROR(device_.queue->Download(
      *scalar_buffer_, {0}, {reinterpret_cast<std::byte*>(scalars_.data()), 8 * scalars_.size()}));
  static constexpr std::byte kZero[8] = {};
  return device_.queue->Upload(kZero, *scalar_buffer_, {0});
}

double ModelShard::fetched_squared_norm(SegmentId segment) const { return scalars_[ScalarOf(segment)]; }

absl::StatusOr<double> ModelShard::TakeLossSum() {
  RETURN_IF_ERROR(FetchScalars());
  RETURN_IF_ERROR(device_.queue->Wait(device_.queue->Record()));
  return fetched_loss_sum();
}

absl::Status ModelShard::UpdateParameters(const Update& update) {
  update_ranges_.clear();
  for (const PlacedParameter& placed : arena_->layout().parameters) {
    const float weight_decay = placed.spec.decays ? update.weight_decay : 0.0f;
    if (!update_ranges_.empty() && update_ranges_.back().weight_decay == weight_decay) {
      update_ranges_.back().elements += placed.spec.elements;  // parameters lie side by side
    } else {
      update_ranges_.push_back({placed.offset, placed.spec.elements, weight_decay});
    }
  }
  RETURN_IF_ERROR(device_.ops->AdamW({.parameter = arena_->Whole(Part::kParameter),
                                      .gradient = arena_->Whole(Part::kGradient),
                                      .m = arena_->Whole(Part::kFirstMoment),
                                      .v = arena_->Whole(Part::kSecondMoment),
                                      .ranges = update_ranges_,
                                      .learning_rate = update.learning_rate,
                                      .beta1 = update.beta1,
                                      .beta2 = update.beta2,
                                      .epsilon = update.epsilon,
                                      .gradient_scale = update.gradient_scale,
                                      .step = update.step}));
  device_.ops->ParametersChanged();
  return ZeroGradients();
}

absl::Status ModelShard::ZeroGradients() {
  const Slice all = arena_->Whole(Part::kGradient);
  return device_.ops->Fill({.x = all, .elements = all.elements, .value = 0});
}

}  // namespace medley
