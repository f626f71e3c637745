#include "agent/profile/sized_blocks.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// More layers than the fewest are timed together as long as one repetition takes no longer than this.
constexpr double kLongestOfManySeconds = 0.5;

}  // namespace

absl::StatusOr<const SizedBlock*> SizedBlocks::Add(TimedBlock block, int index, int micro_batch,
                                                   const SizedBlock* last, double longest_seconds) {
  if (last != nullptr) {
    const int layers = block == TimedBlock::kLayer ? std::min(shape_.model.layers, kFewestTimedLayers) : 1;
    const double expected_seconds = last->seconds / last->layers * layers * micro_batch / last->micro_batch;
    if (expected_seconds > longest_seconds) return nullptr;
  }
  auto sized = std::make_unique<SizedBlock>();
  sized->block = block;
  sized->index = index;
  sized->micro_batch = micro_batch;
  sized->layers = block == TimedBlock::kLayer ? LayersToTime(device_, shape_, micro_batch) : 1;
  absl::Status opened = Open(*sized);
  for (const int layers : {kFewestTimedLayers, 1}) {
    if (!absl::IsResourceExhausted(opened) || sized->layers <= layers) continue;
    sized->layers = layers;
    opened = Open(*sized);
  }
  if (absl::IsResourceExhausted(opened) && last != nullptr) return nullptr;
  RETURN_IF_ERROR(opened);
  ASSIGN_OR_RETURN(BlockRepetition repetition, sized->shard->TimeOnce());
  if (repetition.all().seconds > kLongestOfManySeconds && sized->layers > kFewestTimedLayers) {
    const double part = kLongestOfManySeconds / repetition.all().seconds;
    sized->layers = std::max(kFewestTimedLayers, WholePieces(static_cast<int>(part * sized->layers)));
    sized->shard = nullptr;
    RETURN_IF_ERROR(Open(*sized));
    ASSIGN_OR_RETURN(repetition, sized->shard->TimeOnce());
  }
  sized->seconds = repetition.all().seconds;
  return all_.emplace_back(std::move(sized)).get();
}

absl::Status SizedBlocks::Open(SizedBlock& sized) {
  if (sized.shard != nullptr) return absl::OkStatus();
  const auto create_and_warm_up = [&](bool splits) -> absl::Status {
    ASSIGN_OR_RETURN(TimedShard shard, TimedShard::Create(device_, shape_, precision_, BlocksOf(sized),
                                                          sized.micro_batch, splits));
    RETURN_IF_ERROR(shard.TimeOnce().status());
    sized.shard = std::make_unique<TimedShard>(std::move(shard));
    return absl::OkStatus();
  };
  const bool of_layers = sized.block == TimedBlock::kLayer;
  absl::Status opened = create_and_warm_up(of_layers);
  if (absl::IsResourceExhausted(opened)) {
    CloseAll();
    opened = create_and_warm_up(of_layers);
  }
  // Few plans put gradients off: not knowing their time is better than not knowing any.
  if (absl::IsResourceExhausted(opened) && of_layers) opened = create_and_warm_up(false);
  return opened;
}

void SizedBlocks::CloseAll() {
  for (const std::unique_ptr<SizedBlock>& sized : all_) sized->shard = nullptr;
}

BlockRange SizedBlocks::BlocksOf(const SizedBlock& sized) const {
  if (sized.block == TimedBlock::kEmbedding) return {0, 1};
  const BlockId head = shape_.model.head_block();
  return sized.block == TimedBlock::kHead ? BlockRange{head, head + 1} : BlockRange{1, 1 + sized.layers};
}

SizedBlock* SizedBlocks::LayerAt(int index) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& sized) {
    return sized->block == TimedBlock::kLayer && sized->index == index;
  });
  return found == all_.end() ? nullptr : found->get();
}

}  // namespace medley
