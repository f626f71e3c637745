#include "runtime/engine/shard/model_shard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/shard/rotary.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

absl::Span<const std::byte> AsBytes(absl::Span<const int32_t> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(int32_t)};
}

ModelShare HeldShare(const ShardOptions& options) {
  return options.share.value_or(WholeModel(options.shape.model));
}

RankMemory MemoryOf(const ShardOptions& options) {
  return medley::MemoryOf(LocalModel(options.shape.model, HeldShare(options)), options.shape.sequence,
                          options.chunks, options.micro_batch_sequences, options.buffers,
                          options.optimizer.has_value() ? &*options.optimizer : nullptr);
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
          .chunks = plan.units[program.unit].chunks,
          .share = ShareOf(plan, program.rank, shape.model),
          .optimizer = OptimizerShardOf(plan, program.rank, shape.model),
          .micro_batch_sequences = LargestMicroBatch(program.visits),
          .buffers = program.buffers,
          .precision = precision};
}

absl::StatusOr<std::unique_ptr<ModelShard>> ModelShard::Create(Device& device, const ShardOptions& options) {
  std::unique_ptr<ModelShard> shard(new ModelShard(device, options));
  shard->pass_ = shard->ShapeOf(options.micro_batch_sequences);
  const absl::Status allocated = shard->Allocate();
  if (!allocated.ok()) {
    const RankMemory need = MemoryOf(options);
    return Annotate(
        allocated,
        absl::StrFormat(
            "blocks %s need %s (parameters, gradients and optimizer %s, "
            "activations %s, boundaries %s, workspace %s, logits %s) on %s%s",
            absl::StrJoin(options.chunks, ", ",
                          [](std::string* out, const BlockRange& blocks) {
                            absl::StrAppend(out, blocks.first.value(), "-", blocks.end - 1);
                          }),
            FormatBytes(need.total()), FormatBytes(need.parameters + need.gradients + need.optimizer),
            FormatBytes(need.activations), FormatBytes(need.boundaries),
            FormatBytes(need.workspace + need.conversions), FormatBytes(need.logits), device.queue->name(),
            need.host > Bytes{0} ? absl::StrCat(", and ", FormatBytes(need.host), " of host memory") : ""));
  }
  shard->CarveBoundaries();
  RETURN_IF_ERROR(shard->OpenStashHome());
  RETURN_IF_ERROR(shard->WriteRotaryAngles());
  return shard;
}

absl::Status ModelShard::Allocate() {
  const RankMemory need = MemoryOf(options_);
  const std::optional<OptimizerShard>& optimizer = options_.optimizer;
  ASSIGN_OR_RETURN(
      arena_, ParameterArena::Create(device_, options_.shape.model, options_.chunks, HeldShare(options_),
                                     optimizer.has_value() ? std::optional(optimizer->owned) : std::nullopt,
                                     options_.buffers.windows, options_.buffers.home));
  ASSIGN_OR_RETURN(stash_buffer_, device_.queue->Allocate(need.activations));
  ASSIGN_OR_RETURN(boundary_buffer_, device_.queue->Allocate(need.boundaries));
  norm_runs_ = optimizer.has_value() ? optimizer->norms : WholeOptimizer(arena_->layout()).norms;
  const Bytes scalars = ScalarBytes(pass_.config, options_.chunks, static_cast<int64_t>(norm_runs_.size()));
  scalars_.resize(scalars.value / 8);
  ASSIGN_OR_RETURN(workspace_buffer_, device_.queue->Allocate(need.workspace - scalars));
  ASSIGN_OR_RETURN(scalar_buffer_, device_.queue->Allocate(scalars));
  ASSIGN_OR_RETURN(scratch_buffer_, device_.queue->Allocate(need.conversions + need.logits));
  if (options_.buffers.goes_ahead) {
    const int64_t parameters = arena_->Whole(Part::kParameter).elements,
                  elements = parameters + AdvanceScratchElements(parameters);
    ASSIGN_OR_RETURN(ahead_buffer_, device_.queue->Allocate({elements * SizeOf(Dtype::kF32).value}));
    before_ = {ahead_buffer_.get(), 0, parameters};
  }
  Carver carver(*scratch_buffer_);
  const auto take = [&](Bytes size) {
    return size == Bytes{} ? Slice{} : carver.Take(size.value / SizeOf(Dtype::kF32).value, Dtype::kF32);
  };
  scratch_.conversions = take(need.conversions);
  scratch_.logits = take(need.logits);
  return absl::OkStatus();
}

ModelShard::~ModelShard() {
  device_.ops->UseScratch({});
  device_.ops->ForgetParameters();
}

Ops& ModelShard::PassOps() {
  device_.ops->UseScratch(scratch_);
  return *device_.ops;
}

PassShape ModelShard::ShapeOf(int micro_batch_sequences) const {
  const ModelShare share = HeldShare(options_);
  return {.config = LocalModel(options_.shape.model, share),
          .batch = micro_batch_sequences,
          .sequence = options_.shape.sequence,
          .precision = device_.computes.For(options_.precision),
          .activations = options_.buffers.activations,
          .made_again = LastLayersMadeAgain(options_.shape.model, options_.chunks, options_.buffers.recompute,
                                            options_.buffers.recomputed_layers),
          .homed = HomedBlocksOf(options_.buffers, options_.shape.model, options_.chunks),
          .group = group_,
          .ranks = options_.buffers.ranks,
          .member = options_.buffers.member,
          .sequence_parallel = options_.buffers.sequence_parallel,
          .first_token = share.vocabulary.first,
          .exchange_parts = options_.buffers.exchange_parts};
}

void ModelShard::CarveBoundaries() {
  const BufferCounts& counts = options_.buffers;
  Bytes used;
  const auto slots = [&](int count, Bytes size) {
    const SlotMemory memory = {stash_buffer_.get(), used, size, count};
    used += int64_t{count} * size;
    return memory;
  };
  for (size_t c = 0; c < options_.chunks.size(); ++c) {
    const auto kept = [&](BlockRange blocks) {
      return StashBytes(pass_.config, blocks, pass_.row_counts(), pass_.activations, pass_.made_again);
    };
    const BlockRange& chunk = options_.chunks[c];
    stashes_.push_back(slots(counts.stash[c], kept(pass_.homed.StayingOf(chunk))));
    leaving_stashes_.push_back(slots(counts.leaving_stash[c], kept(pass_.homed.Of(chunk))));
    deferred_.push_back(slots(counts.deferred[c], DeferredBytes(pass_.config, options_.chunks[c],
                                                                pass_.row_counts(), pass_.activations)));
  }
  recomputed_ = slots(counts.recomputed, RecomputedBytes(pass_.config, pass_.row_counts(), pass_.activations,
                                                         pass_.made_again.what));
  stream_gradients_ = slots(counts.stream_gradient,
                            TensorBytes(pass_.row_counts().own * pass_.config.hidden, pass_.activations));
  passes_.resize(options_.chunks.size());
  Carver boundary(*boundary_buffer_);
  for (int kind = 0; kind < kBufferKinds; ++kind) {
    const BufferKind of = static_cast<BufferKind>(kind);
    if (!Travels(of)) continue;
    for (int i = 0; i < counts.of(of); ++i)
      boundaries_.Add(of, boundary.Take(pass_.own().size() * pass_.config.hidden, pass_.activations));
  }
}

absl::Status ModelShard::OpenStashHome() {
  std::vector<std::vector<int64_t>> elements;  // of each chunk, of each of what its micro-batches keep
  bool any = false;
  for (size_t c = 0; c < options_.chunks.size(); ++c) {
    const int count = options_.buffers.stash_home[c];
    elements.emplace_back(count, leaving_stashes_[c].size.value / SizeOf(Dtype::kF32).value);
    any = any || count > 0;
  }
  if (!any) return absl::OkStatus();
  ASSIGN_OR_RETURN(stash_home_, LayerHome::Create(*device_.queue, elements, "activations"));
  return absl::OkStatus();
}

Bytes ModelShard::host_allocated() const {
  return arena_->host_allocated() + (stash_home_ == nullptr ? Bytes{} : stash_home_->size());
}

absl::Status ModelShard::StoreStash(int chunk, int stash, int home, Bytes size) {
  const SlotMemory& stashes = leaving_stashes_[chunk];
  return stash_home_->Store(
      *stashes.buffer, stashes.offset + int64_t{stash} * stashes.size,
      stash_home_->Values(chunk, home).subspan(0, size.value / SizeOf(Dtype::kF32).value));
}

absl::Status ModelShard::FetchStash(int chunk, int home, int stash, Bytes size) {
  const SlotMemory& stashes = leaving_stashes_[chunk];
  return stash_home_->Fetch(
      stash_home_->Values(chunk, home).subspan(0, size.value / SizeOf(Dtype::kF32).value), *stashes.buffer,
      stashes.offset + int64_t{stash} * stashes.size);
}

Workspace ModelShard::WorkspaceOf(const PassShape& shape) const {
  Carver carver(*workspace_buffer_);
  return Workspace::Of(shape, options_.chunks, carver);
}

const ChunkPasses& ModelShard::PassesOf(int chunk, int micro_batch_sequences) {
  const int size = micro_batch_sequences > 0 ? micro_batch_sequences : options_.micro_batch_sequences;
  std::list<ChunkPasses>& sizes = passes_[chunk];
  for (const ChunkPasses& passes : sizes) {
    if (passes.batch() == size) return passes;
  }
  const PassShape shape = ShapeOf(size);
  return sizes.emplace_back(shape, options_.chunks[chunk],
                            ChunkMemory{.arena = *arena_,
                                        .boundaries = boundaries_,
                                        .stash = stashes_[chunk],
                                        .leaving_stash = leaving_stashes_[chunk],
                                        .deferred = deferred_[chunk],
                                        .recomputed = recomputed_,
                                        .stream_gradients = stream_gradients_,
                                        .workspace = WorkspaceOf(shape),
                                        .loss_sum = {scalar_buffer_.get(), 0, 1}});
}

const ChunkPasses& ModelShard::PassesWith(BlockId block, size_t tokens) {
  int chunk = 0;
  while (!options_.chunks[chunk].contains(block)) ++chunk;
  return PassesOf(chunk, static_cast<int>(tokens) / options_.shape.sequence);
}

absl::Status ModelShard::WriteRotaryAngles() {
  const Workspace workspace = WorkspaceOf(pass_);
  if (workspace.cosine.empty()) return absl::OkStatus();
  const RotaryAngles angles = RotaryAnglesOf(pass_.config, options_.shape.sequence);
  for (const auto& [values, to] :
       {std::pair(&angles.cosine, workspace.cosine), std::pair(&angles.sine, workspace.sine)}) {
    RETURN_IF_ERROR(
        device_.queue->Upload({reinterpret_cast<const std::byte*>(values->data()), values->size() * 4},
                              *to.buffer, {to.offset_bytes}));
  }
  return absl::OkStatus();
}

Slice ModelShard::BoundaryOf(BufferId buffer, std::optional<Dtype> dtype) const {
  return boundaries_.Of(buffer, dtype);
}

absl::Status ModelShard::SetTokens(const PassBuffers& buffers, absl::Span<const int32_t> tokens) {
  const Slice& to = PassesWith(pass_.config.embedding_block(), tokens.size()).TokensOf(buffers);
  return device_.queue->Upload(AsBytes(tokens), *to.buffer, {to.offset_bytes});
}

absl::Status ModelShard::SetTargets(const PassBuffers& buffers, absl::Span<const int32_t> targets) {
  const Slice& to = PassesWith(pass_.config.head_block(), targets.size()).TargetsOf(buffers);
  return device_.queue->Upload(AsBytes(targets), *to.buffer, {to.offset_bytes});
}

// The step's loss is the mean over all its tokens, whatever the micro-batches.
float ModelShard::TokenWeight() const {
  return static_cast<float>(
      loss_scale_ / (static_cast<double>(options_.shape.global_batch_sequences) * options_.shape.sequence));
}

absl::Status ModelShard::Forward(const PassBuffers& buffers, BlockRange blocks, Purpose purpose) {
  return PassesOf(buffers).Forward(PassOps(), buffers, blocks, purpose);
}

absl::Status ModelShard::MakeAgain(const PassBuffers& buffers, BlockRange blocks) {
  return PassesOf(buffers).MakeAgain(PassOps(), buffers, blocks);
}

absl::Status ModelShard::Backward(const PassBuffers& buffers, BlockRange blocks) {
  return PassesOf(buffers).Backward(PassOps(), buffers, blocks, TokenWeight());
}

absl::Status ModelShard::InputGradient(const PassBuffers& buffers) {
  return PassesOf(buffers).InputGradient(PassOps(), buffers, TokenWeight());
}

absl::Status ModelShard::WeightGradient(const PassBuffers& buffers, BlockRange blocks) {
  return PassesOf(buffers).WeightGradient(PassOps(), buffers, blocks);
}

absl::Status ModelShard::JoinGradients(int chunk, BlockRange blocks) {
  return PassesOf(chunk, options_.micro_batch_sequences).JoinGradients(blocks);
}

absl::Status ModelShard::ComputeNorms(absl::Span<const SegmentId> segments) {
  for (size_t i = 0; i < norm_runs_.size(); ++i) {
    const NormRun& run = norm_runs_[i];
    if (std::find(segments.begin(), segments.end(), run.segment) == segments.end()) continue;
    RETURN_IF_ERROR(
        device_.ops->SquaredNorm({.x = arena_->Sums(run.offset, run.elements),
                                  .out = {scalar_buffer_.get(), 8 * static_cast<int64_t>(1 + i), 1},
                                  .elements = run.elements}));
  }
  return absl::OkStatus();
}

absl::Status ModelShard::FetchScalars() {
  RETURN_IF_ERROR(device_.queue->Download(
      *scalar_buffer_, {0}, {reinterpret_cast<std::byte*>(scalars_.data()), 8 * scalars_.size()}));
  static constexpr std::byte kZero[8] = {};
  return device_.queue->Upload(kZero, *scalar_buffer_, {0});
}

double ModelShard::fetched_squared_norm(SegmentId segment) const {
  double sum = 0;
  for (size_t i = 0; i < norm_runs_.size(); ++i) {
    if (norm_runs_[i].segment == segment) sum += scalars_[1 + i];
  }
  return sum;
}

absl::StatusOr<double> ModelShard::TakeLossSum() {
  RETURN_IF_ERROR(FetchScalars());
  RETURN_IF_ERROR(device_.queue->Wait(device_.queue->Record()));
  return fetched_loss_sum();
}

absl::Status ModelShard::UpdateParameters(const Update& update) {
  for (const OwnedRun& run : arena_->OwnedOnDevice()) RETURN_IF_ERROR(UpdateOwned(run, update));
  device_.ops->ParametersChanged();
  return ZeroGradients();
}

absl::Status ModelShard::Copy(const Slice& from, const Slice& to) {
  return device_.ops->Cast({.x = from, .y = to, .elements = from.elements});
}

absl::Status ModelShard::AdvanceParameters(const Update& update) {
  const Slice parameters = arena_->Whole(Part::kParameter);
  RETURN_IF_ERROR(Copy(parameters, before_));
  // The moments are read from copies, a part of them at a time: the update is one op, which writes them.
  const int64_t most = AdvanceScratchElements(parameters.elements) / 2;
  const auto scratch = [&](int64_t first, int64_t elements) {
    return Slice{ahead_buffer_.get(), (parameters.elements + first) * SizeOf(Dtype::kF32).value, elements};
  };
  for (const OwnedRun& run : arena_->OwnedOnDevice()) {
    for (int64_t first = 0; first < run.elements; first += most) {
      OwnedRun part = run;
      part.offset += first;
      part.place += first;
      part.elements = std::min(most, run.elements - first);
      const Slice m = scratch(0, part.elements), v = scratch(most, part.elements);
      RETURN_IF_ERROR(Copy(arena_->Owned(Part::kFirstMoment, part), m));
      RETURN_IF_ERROR(Copy(arena_->Owned(Part::kSecondMoment, part), v));
      RETURN_IF_ERROR(UpdateOwned(part, update, arena_->Owned(Part::kParameter, part), m, v));
    }
  }
  advanced_ = update;
  device_.ops->ParametersChanged();
  return absl::OkStatus();
}

absl::Status ModelShard::SettleParameters(const std::optional<Update>& update) {
  const bool holds = update.has_value() && update == advanced_;
  advanced_.reset();
  if (!holds) {
    RETURN_IF_ERROR(Copy(before_, arena_->Whole(Part::kParameter)));
    device_.ops->ParametersChanged();
    return update.has_value() ? UpdateParameters(*update) : ZeroGradients();
  }
  // The parameters as they were become, by the same op, what they are already: only the moments matter.
  for (const OwnedRun& run : arena_->OwnedOnDevice()) {
    Slice before = arena_->Owned(Part::kParameter, run);
    before.buffer = before_.buffer;
    RETURN_IF_ERROR(UpdateOwned(run, *update, before));
  }
  return ZeroGradients();
}

absl::Status ModelShard::UpdateLayer(BlockId layer, const Update& update) {
  for (const OwnedRun& run : arena_->OwnedOfLayer(layer)) RETURN_IF_ERROR(UpdateOwned(run, update));
  return absl::OkStatus();
}

absl::Status ModelShard::UpdateOwned(const OwnedRun& run, const Update& update, const Slice& parameters) {
  return UpdateOwned(run, update, parameters, arena_->Owned(Part::kFirstMoment, run),
                     arena_->Owned(Part::kSecondMoment, run));
}

absl::Status ModelShard::UpdateOwned(const OwnedRun& run, const Update& update, const Slice& parameters,
                                     const Slice& m, const Slice& v) {
  update_ranges_.clear();
  const std::vector<PlacedParameter>& tensors = arena_->layout().parameters;
  auto placed = std::partition_point(tensors.begin(), tensors.end(), [&](const PlacedParameter& before) {
    return before.offset + before.spec.elements <= run.offset;
  });
  for (; placed != tensors.end() && placed->offset < run.offset + run.elements; ++placed) {
    const float weight_decay = placed->spec.decays ? update.weight_decay : 0.0f;
    const int64_t first = std::max(placed->offset, run.offset) - run.offset,
                  end = std::min(placed->offset + placed->spec.elements - run.offset, run.elements);
    if (!update_ranges_.empty() && update_ranges_.back().weight_decay == weight_decay) {
      update_ranges_.back().elements += end - first;  // parameters lie side by side
    } else {
      update_ranges_.push_back({first, end - first, weight_decay});
    }
  }
  return device_.ops->AdamW({.parameter = parameters,
                             .gradient = arena_->Owned(Part::kGradient, run),
                             .m = m,
                             .v = v,
                             .ranges = update_ranges_,
                             .learning_rate = update.learning_rate,
                             .beta1 = update.beta1,
                             .beta2 = update.beta2,
                             .epsilon = update.epsilon,
                             .gradient_scale = update.gradient_scale,
                             .step = update.step});
}

absl::Status ModelShard::ZeroGradients() {
  const Slice all = arena_->OnDevice(Part::kGradient);
  return device_.ops->Fill({.x = all, .elements = all.elements, .value = 0});
}

absl::Status ModelShard::ZeroGradientsOf(BlockId layer) {
  const Slice window = arena_->Window(Part::kGradient, layer);
  return device_.ops->Fill({.x = window, .elements = window.elements, .value = 0});
}

}  // namespace medley
