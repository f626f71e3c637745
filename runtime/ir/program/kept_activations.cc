#include "runtime/ir/program/kept_activations.h"

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/row_counts.h"
#include "runtime/ir/program/stash_trips.h"

namespace medley {

KeptActivations::KeptActivations(StepWriter& writer, const UnitOrder& order)
    : writer_(writer),
      order_(order),
      homed_blocks_(HomedBlocksOf(writer.program().buffers, writer.shape().model, writer.unit().chunks)),
      made_again_(LastLayersMadeAgain(writer.shape().model, writer.unit().chunks, writer.unit().recompute,
                                      writer.unit().recomputed_layers)),
      goes_home_(writer.contents(), false),
      fetched_before_(order.size(), -1) {
  if (writer.trains() && writer.unit().activations_home != ActivationsHome::kDevice) FindTrips();
}

void KeptActivations::FindTrips() {
  const auto& chunks = writer_.unit().chunks;
  const Visits& visits = writer_.program().visits;
  for (const StashTrip& trip : StashTripsOf(order_, visits, static_cast<int>(chunks.size()))) {
    const UnitOp& forward = order_[trip.forward];
    if (homed_blocks_.Of(chunks[visits[forward.visit].chunk]).size() == 0) continue;
    goes_home_[writer_.ContentOf(forward.visit, forward.micro_batch)] = true;
    fetched_before_[trip.fetched_before] = trip.gradient;
  }
}

void KeptActivations::AddTo(Instruction& pass, int i) const {
  AddTo(pass, i, BufferKind::kLeavingStash, homed_blocks_.Of(writer_.chunk()));
  AddTo(pass, i, BufferKind::kStash, homed_blocks_.StayingOf(writer_.chunk()));
}

// In a buffer that has what is kept of `part` of the chunk.
void KeptActivations::AddTo(Instruction& pass, int i, BufferKind kind, BlockRange part) const {
  // What the last one of them puts out is the input of the block behind it.
  if (part.size() == 0 || pass.blocks.end <= part.first || pass.blocks.first > part.end) return;
  const bool forward = pass.kind == InstructionKind::kForward, first = pass.blocks.contains(part.first);
  const bool fetched = !forward && kind == BufferKind::kLeavingStash && GoesHome(i);
  Operand kept = fetched ? UseFetched(i) : writer_.Use(kind, i);
  kept.fills = forward && first;
  kept.writes = forward && pass.blocks.first < part.end;
  if (forward) {
    const bool last = pass.blocks.end > part.end || pass.blocks.end == writer_.chunk().end;
    kept.releases = !writer_.trains() && last;
  } else {
    const bool of_weights =
        pass.kind == InstructionKind::kBackward || pass.kind == InstructionKind::kWeightGradient;
    kept.releases = of_weights && first;
  }
  pass.Add(kept);
}

Operand KeptActivations::UseFetched(int i) const {
  Operand fetched = writer_.Use(BufferKind::kLeavingStash, i);
  fetched.buffer.index += writer_.contents();
  return fetched;
}

void KeptActivations::StoreBehindForward(int i) {
  if (!GoesHome(i)) return;
  Instruction store = writer_.Make(InstructionKind::kStore, Stream::kStore, i);
  store.Add(writer_.Read(BufferKind::kLeavingStash, i, true));
  store.Add(writer_.Fill(BufferKind::kStashHome, i));
  AddCopy(store);
}

void KeptActivations::FetchAhead(size_t pass) {
  if (fetched_before_[pass] < 0) return;
  const int i = writer_.Enter(order_[fetched_before_[pass]]);
  Instruction fetch = writer_.Make(InstructionKind::kFetch, Stream::kFetch, i);
  Operand fetched = UseFetched(i);
  fetched.fills = fetched.writes = true;
  fetch.Add(fetched);
  fetch.Add(writer_.Read(BufferKind::kStashHome, i, true));
  AddCopy(fetch);
}

void KeptActivations::AddCopy(Instruction copy) {
  const ModelConfig& model = writer_.shape().model;
  const StepProgram& program = writer_.program();
  copy.blocks = homed_blocks_.Of(writer_.chunk());
  copy.bytes =
      StashBytes(LocalModel(model, ShareOf(writer_.plan(), program.rank, model)), copy.blocks,
                 RowCountsOf(program.buffers, writer_.Rows()), writer_.unit().activations, made_again_);
  writer_.Add(copy);
}

bool KeptActivations::MakesAgain(BlockRange blocks) const {
  for (BlockId block = blocks.first; block < blocks.end; ++block) {
    if (made_again_.Of(writer_.shape().model, block) != Recompute::kNone) return true;
  }
  return false;
}

Operand KeptActivations::MakeLayer(bool releases) {
  return {.buffer = {BufferKind::kRecomputed, made_layers_++},
          .fills = true,
          .writes = true,
          .releases = releases};
}

}  // namespace medley
