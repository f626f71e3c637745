#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/row_counts.h"
#include "runtime/ir/program/assign_buffers.h"
#include "runtime/ir/program/going_ahead.h"
#include "runtime/ir/program/program.h"
#include "runtime/ir/program/schedule.h"
#include "runtime/ir/program/stash_trips.h"
#include "runtime/ir/program/step_end.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {
namespace {

// Writes the passes of a step in the order of the unit's schedule, and lets the end follow.
class Compiler {
 public:
  Compiler(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose, StepEnds ends)
      : plan_(plan),
        shape_(shape),
        purpose_(purpose),
        ends_(ends),
        going_ahead_(plan),
        writer_(plan, rank, shape, purpose),
        end_(writer_),
        unit_(writer_.unit()),
        program_(writer_.program()),
        made_again_(
            LastLayersMadeAgain(shape.model, unit_.chunks, unit_.recompute, unit_.recomputed_layers)) {
    DescribeUnit();
    homed_blocks_ = HomedBlocksOf(program_.buffers, shape.model, unit_.chunks);
  }

  StepProgram Run() {
    order_ = OrderOfUnit(plan_, program_.unit, program_.visits);
    if (purpose_ == Purpose::kEvaluate) {
      std::erase_if(order_, [](const UnitOp& op) {
        return op.kind != OpKind::kForward && op.kind != OpKind::kReceiveActivation;
      });
    }
    if (writer_.recomputes() || writer_.windows_here()) {
      // What the weights' gradients need would have to be made, or fetched, a second time: they come with the
      // inputs'.
      std::erase_if(order_, [](const UnitOp& op) { return op.kind == OpKind::kWeightGradient; });
      for (UnitOp& op : order_) {
        if (op.kind == OpKind::kInputGradient) op.kind = OpKind::kBackward;
      }
    }
    PutAheadFirst();
    if (writer_.trains() || unit_.lives_on_peers())
      program_.slices = SlicesOf(plan_, program_.rank, shape_.model);
    FindBeginnings();
    forwarded_.assign(unit_.chunks.size(), false);
    FindLastGradients();
    FindHomed();
    // A unit that is passed again may have to send before it gets all that it waits for.
    // All micro-batches of a layer at a time keep what they keep until the last layer.
    goes_together_ = writer_.windows_here() && plan_.schedule == Schedule::kGPipe &&
                     PassesEachUnitOnce(plan_) && unit_.activations_home == ActivationsHome::kDevice &&
                     !EachLayerStaysInItsWindow();
    writer_.OpenWindows();
    EmitGathers();
    EmitPasses();
    program_.buffers = AssignBuffers(program_.instructions);
    program_.buffers.stash.resize(unit_.chunks.size());
    program_.buffers.leaving_stash.resize(unit_.chunks.size());
    program_.buffers.deferred.resize(unit_.chunks.size());
    program_.buffers.stash_home.resize(unit_.chunks.size());
    DescribeUnit();
    program_.buffers.recompute = unit_.recompute;
    program_.buffers.recomputed_layers = unit_.recomputed_layers;
    program_.buffers.activations = program_.buffers.narrowest = unit_.activations;
    for (const Visit& visit : program_.visits) {
      for (const UnitId other : {visit.previous, visit.next}) {
        if (other >= 0)
          program_.buffers.narrowest = NarrowerOf(program_.buffers.narrowest, writer_.TypeAcross(other));
      }
    }
    if (writer_.trains()) end_.AddReductions();
    end_.AddEnd();
    return WithEnds(program_, instructions_ahead_, ends_);
  }

 private:
  using OpKind = UnitOp::Kind;

  void DescribeUnit() {
    program_.buffers.ranks = static_cast<int>(unit_.devices.size());
    program_.buffers.member = writer_.place().member;
    program_.buffers.sequence_parallel = unit_.sequence_parallel;
    program_.buffers.exchange_parts = unit_.exchange_parts;
    program_.buffers.windows = unit_.window_layers;
    program_.buffers.home = unit_.layers_home;
    program_.buffers.activations_home = unit_.activations_home;
    program_.buffers.homed_layers = unit_.homed_layers;
    program_.buffers.goes_ahead = writer_.trains() && going_ahead_.ForwardsOf(program_.unit) > 0;
  }

  bool GoesAhead(StageId stage, MicroBatchId micro_batch) const {
    return writer_.trains() && going_ahead_.Contains(stage, micro_batch);
  }
  bool GoesAhead(const UnitOp& op) const {
    const Visit& visit = program_.visits[op.visit];
    const bool forward = op.kind == OpKind::kForward || op.kind == OpKind::kReceiveActivation;
    return forward && GoesAhead(visit.stage, visit.first_micro_batch + op.micro_batch);
  }
  // What may be made in the step before comes before all else, messages that are taken in early among that.
  void PutAheadFirst() {
    std::stable_partition(order_.begin(), order_.end(), [&](const UnitOp& op) { return GoesAhead(op); });
  }
  // What the forwards that go ahead send to units that take it in later. It goes with the rest of the step.
  void EndAhead() {
    instructions_ahead_ = static_cast<int>(program_.instructions.size());
    for (const auto& [visit, i] : sent_later_) {
      writer_.Enter(visit);
      writer_.AddMessages(InstructionKind::kSendActivation, i);
    }
    sent_later_.clear();
  }

  // The passes with their messages.
  void EmitPasses() {
    // A pass, and a message on each side.
    program_.instructions.reserve(3 * order_.size() + 3 * program_.slices.size() + 3);
    for (size_t i = 0; i < order_.size();) {
      if (instructions_ahead_ < 0 && !GoesAhead(order_[i])) EndAhead();
      // Those that go through the chunk together, a piece at a time.
      passes_.clear();
      const OpKind kind = order_[i].kind;
      for (bool first = true; i < order_.size() && (first || GoesOn(kind, order_[i])); first = false, ++i) {
        writer_.Enter(order_[i].visit);
        if (order_[i].kind == OpKind::kReceiveActivation) {
          writer_.AddMessages(InstructionKind::kReceiveActivation, order_[i].micro_batch);
        } else if (order_[i].kind == OpKind::kReceiveGradient) {
          writer_.AddMessages(InstructionKind::kReceiveGradient, order_[i].micro_batch);
        } else {
          passes_.push_back(i);
        }
      }
      if (passes_.empty()) continue;
      if (kind != OpKind::kForward) EndForwards();
      if (const int next = fetched_before_[passes_.front()]; next >= 0) EmitFetchOfStash(next);
      if (kind == OpKind::kForward) EmitForwards();
      if (kind == OpKind::kBackward) EmitBackwards(InstructionKind::kBackward);
      if (kind == OpKind::kInputGradient) EmitBackwards(InstructionKind::kInputGradient);
      if (kind == OpKind::kWeightGradient) EmitWeightGradient();
    }
  }

  // Whether `op` goes through its chunk together with `passes_`, which are of `kind`: each layer is fetched once
  // for all of them.
  bool GoesOn(OpKind kind, const UnitOp& op) const {
    if (!goes_together_ || passes_.empty()) return false;
    const bool receives =
        op.kind == (kind == OpKind::kForward ? OpKind::kReceiveActivation : OpKind::kReceiveGradient);
    const Visit& before = program_.visits[order_[passes_.back()].visit];
    return (op.kind == kind || receives) && program_.visits[op.visit].chunk == before.chunk;
  }

  // Whether a piece of a pass is one block.
  bool by_block() const { return writer_.recomputes() || writer_.windows_here(); }

  // The passes at hand, from now on of `pass`; its micro-batch.
  int Enter(size_t pass) {
    writer_.Enter(order_[pass].visit);
    return order_[pass].micro_batch;
  }
  const Visit& at() const { return writer_.at(); }
  bool IsLastOfChunk(size_t pass) const { return last_gradient_[at().chunk] == static_cast<int>(pass); }

  // Whether micro-batches may pass all layers one after another, and each layer is fetched once all the same. Where layers
  // live with their holders one that has fewer windows would have to give back a window for a gather that a
  // micro-batch waits for, which others wait for in turn.
  bool EachLayerStaysInItsWindow() const {
    return unit_.lives_on_peers() ? HasWindowsForAllLayers(plan_, shape_.model)
                                  : unit_.window_layers >= LayersOf(unit_, shape_.model);
  }

  // Layers that live with their holders are gathered anew for the backwards, by all of them, whatever their windows
  // still have.
  void EndForwards() {
    if (!unit_.lives_on_peers() || forwards_ended_) return;
    writer_.windows().DropAll(BufferKind::kParameterWindow);
    forwards_ended_ = true;
  }

  // Whether some layer of `blocks` is made again.
  bool MakesAgain(BlockRange blocks) const {
    for (BlockId block = blocks.first; block < blocks.end; ++block) {
      if (made_again_.Of(shape_.model, block) != Recompute::kNone) return true;
    }
    return false;
  }

  // What is made of a layer: a content of its own each time.
  Operand MakeLayer(bool releases) {
    return {.buffer = {BufferKind::kRecomputed, made_layers_++},
            .fills = true,
            .writes = true,
            .releases = releases};
  }
  bool GoesHome(int i) const { return homed_[writer_.ContentOf(writer_.visit(), i)]; }
  // What a forward kept and went home is fetched into a content of its own.
  Operand UseFetched(int i) const {
    Operand fetched = writer_.Use(BufferKind::kLeavingStash, i);
    fetched.buffer.index += writer_.contents();
    return fetched;
  }
  // What micro-batch `i` keeps of the blocks of a pass, which says which these are: forwards write it, in pieces.
  void AddKept(int i, Instruction& pass) const {
    AddKept(i, BufferKind::kLeavingStash, homed_blocks_.Of(writer_.chunk()), pass);
    AddKept(i, BufferKind::kStash, homed_blocks_.StayingOf(writer_.chunk()), pass);
  }
  // In a buffer that has what is kept of `part` of the chunk.
  void AddKept(int i, BufferKind kind, BlockRange part, Instruction& pass) const {
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

  // A piece of each pass, then the next piece of each; with layers on the device a pass is one piece.
  void EmitForwards() {
    const bool trains = writer_.trains();
    for (const size_t pass : passes_) {
      const int i = Enter(pass);
      if (!at().first()) writer_.AddGather(InstructionKind::kGatherActivation, BufferKind::kInput, i);
    }
    Enter(passes_.front());
    const BlockRange whole = writer_.chunk();
    const bool first_of_chunk = !forwarded_[at().chunk];
    forwarded_[at().chunk] = true;
    for (BlockRange piece{whole.first, whole.first}; piece.end < whole.end; piece.first = piece.end) {
      piece.end = writer_.windows_here() ? BlockId(piece.first + 1)
                  : first_of_chunk       ? EndOfGathered(piece.first)
                                         : whole.end;
      const bool begins = piece.first == whole.first, ends = piece.end == whole.end;
      for (const size_t pass : passes_) {
        const int i = Enter(pass);
        Instruction forward = writer_.Make(InstructionKind::kForward, Stream::kCompute, i);
        forward.blocks = piece;
        if (first_of_chunk) forward.WaitFor(GatheredBy(piece));
        AddKept(i, forward);
        if (!at().first() && begins) forward.Add(writer_.Read(BufferKind::kInput, i, !trains));
        if (!at().last() && ends) forward.Add(writer_.Fill(BufferKind::kOutput, i));
        if (MakesAgain(piece)) forward.Add(MakeLayer(true));
        end_.Forwarded(writer_.AddPiece(forward));
        if (ends && GoesHome(i)) EmitStoreOfStash(i);
        if (!at().last() && ends) EmitSendOfOutput(i);
      }
    }
  }

  // What the owners of slices updated in the step before goes to all their holders, in the order of its use: that of
  // their sums backwards, which is one for all ranks. The parts of a bucket stay in their order.
  void EmitGathers() {
    const std::vector<GradientSlice>& slices = program_.slices;
    for (int end = static_cast<int>(slices.size()), first = end; end > 0; end = first) {
      for (--first; first > 0 && slices[first - 1].first_segment == slices[end - 1].first_segment;) --first;
      for (int s = first; s < end; ++s) {
        if (!IsGatheredAtOnce(slices[s])) continue;
        const int gather = writer_.Add(writer_.MakeOfSlice(InstructionKind::kGatherParameters, s));
        gathers_.push_back(gather);
        for (SegmentId segment = slices[s].first_segment; segment < slices[s].end_segment; ++segment) {
          if (slices[s].in_host_memory && segment != kTiedSegment)
            writer_.windows().HomeChanged(BufferKind::kParameterWindow, BlockOfSegment(segment), gather);
        }
      }
    }
  }

  // The last gather of what `blocks` use; -1: there is none.
  int GatheredBy(BlockRange blocks) const {
    for (auto gather = gathers_.rbegin(); gather != gathers_.rend(); ++gather) {
      const GradientSlice& slice = program_.slices[program_.instructions[*gather].slice];
      if (HoldsAny(shape_.model, {blocks}, slice.first_segment, slice.end_segment)) return *gather;
    }
    return -1;
  }

  // Where the blocks from `first` on come to those of the next slice that is gathered, so that they need not wait for it.
  BlockId EndOfGathered(BlockId first) const {
    BlockId end = writer_.chunk().end;
    for (const BlockId block : gathered_) {
      if (block > first) end = std::min(end, block);
    }
    return end;
  }

  void EmitSendOfOutput(int i) {
    const MicroBatchId micro_batch = at().first_micro_batch + i;
    if (GoesAhead(at().stage, micro_batch) && !GoesAhead(at().stage + 1, micro_batch)) {
      sent_later_.emplace_back(writer_.visit(), i);
    } else {
      writer_.AddMessages(InstructionKind::kSendActivation, i);
    }
  }

  // Both gradients, or that of the input alone: what it leaves for the other one is not released then.
  void EmitBackwards(InstructionKind kind) {
    for (const size_t pass : passes_) {
      const int i = Enter(pass);
      if (!at().last()) writer_.AddGather(InstructionKind::kGatherGradient, BufferKind::kOutputGradient, i);
    }
    const bool both = kind == InstructionKind::kBackward;
    ForEachPiece(both, [&](size_t pass, BlockRange blocks, bool begins, bool ends) {
      const int i = Enter(pass);
      const bool made_again = MakesAgain(blocks);
      if (made_again) EmitRecompute(i, blocks);
      Instruction piece = writer_.Make(kind, Stream::kCompute, i);
      piece.blocks = blocks;
      if (made_again) {
        made_layer_.releases = true;
        piece.Add(made_layer_);
      }
      AddKept(i, piece);
      if (!at().first()) {
        piece.Add(writer_.Read(BufferKind::kInput, i, both && ends));
        piece.Add(writer_.Write(BufferKind::kInputGradient, i, begins));
      }
      if (!at().last() && begins) piece.Add(writer_.Read(BufferKind::kOutputGradient, i, both));
      if (!both) piece.Add(writer_.Fill(BufferKind::kDeferred, i));
      if (KeepsStreamGradient() && !(begins && ends)) {
        Operand stream = writer_.Write(BufferKind::kStreamGradient, i, begins);
        stream.releases = ends;
        piece.Add(stream);
      }
      const int added = writer_.AddPiece(piece);
      if (ends && !at().first()) writer_.AddMessages(InstructionKind::kSendGradient, i);
      return added;
    });
  }

  // Whether other micro-batches' pieces come between those of the backward at hand, and the gradient of the residual
  // stream is not kept where it leaves the unit.
  bool KeepsStreamGradient() const {
    return passes_.size() > 1 && (at().first() || writer_.TypeAcross(at().previous) != unit_.activations);
  }

  void EmitRecompute(int i, BlockRange blocks) {
    Instruction recompute = writer_.Make(InstructionKind::kRecompute, Stream::kCompute, i);
    recompute.blocks = blocks;
    made_layer_ = MakeLayer(false);
    recompute.Add(made_layer_);
    AddKept(i, recompute);
    if (!at().first()) recompute.Add(writer_.Read(BufferKind::kInput, i, false));
    made_layer_.fills = false;
    writer_.AddPiece(recompute);
  }

  void EmitWeightGradient() {
    ForEachPiece(true, [&](size_t pass, BlockRange blocks, bool begins, bool ends) {
      const int i = Enter(pass);
      Instruction piece = writer_.Make(InstructionKind::kWeightGradient, Stream::kCompute, i);
      piece.blocks = blocks;
      AddKept(i, piece);
      if (!at().first()) piece.Add(writer_.Read(BufferKind::kInput, i, ends));
      if (!at().last() && begins) piece.Add(writer_.Read(BufferKind::kOutputGradient, i, true));
      piece.Add(writer_.Read(BufferKind::kDeferred, i, ends));
      return writer_.Add(piece);
    });
  }

  // The op of each chunk that is the last to add to its weights' gradients.
  void FindLastGradients() {
    last_gradient_.assign(unit_.chunks.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i].kind == OpKind::kBackward || order_[i].kind == OpKind::kWeightGradient)
        last_gradient_[program_.visits[order_[i].visit].chunk] = static_cast<int>(i);
    }
  }

  void FindHomed() {
    homed_.assign(writer_.contents(), false);
    fetched_before_.assign(order_.size(), -1);
    if (unit_.activations_home == ActivationsHome::kDevice || purpose_ == Purpose::kEvaluate) return;
    for (const StashTrip& trip :
         StashTripsOf(order_, program_.visits, static_cast<int>(unit_.chunks.size()))) {
      const Visit& visit = program_.visits[order_[trip.forward].visit];
      if (homed_blocks_.Of(unit_.chunks[visit.chunk]).size() == 0) continue;
      homed_[writer_.ContentOf(order_[trip.forward].visit, order_[trip.forward].micro_batch)] = true;
      fetched_before_[trip.fetched_before] = trip.gradient;
    }
  }

  void EmitStoreOfStash(int i) {
    Instruction store = writer_.Make(InstructionKind::kStore, Stream::kStore, i);
    store.Add(writer_.Read(BufferKind::kLeavingStash, i, true));
    store.Add(writer_.Fill(BufferKind::kStashHome, i));
    AddCopyOfStash(store);
  }
  void EmitFetchOfStash(int pass) {
    const int i = Enter(pass);
    Instruction fetch = writer_.Make(InstructionKind::kFetch, Stream::kFetch, i);
    Operand fetched = UseFetched(i);
    fetched.fills = fetched.writes = true;
    fetch.Add(fetched);
    fetch.Add(writer_.Read(BufferKind::kStashHome, i, true));
    AddCopyOfStash(fetch);
  }
  void AddCopyOfStash(Instruction copy) {
    copy.blocks = homed_blocks_.Of(writer_.chunk());
    copy.bytes =
        StashBytes(LocalModel(shape_.model, ShareOf(plan_, program_.rank, shape_.model)), copy.blocks,
                   RowCountsOf(program_.buffers, writer_.Rows()), unit_.activations, made_again_);
    writer_.Add(copy);
  }

  // Calls emit(pass, blocks, whether they are the chunk's last ones, whether its first), which returns the
  // instruction's index, for each of the passes at hand, piece by piece in the order in which backward goes through
  // them. `of_weights`: they make weights' gradients.
  template <typename Emit>
  void ForEachPiece(bool of_weights, const Emit& emit) {
    Enter(passes_.back());
    const bool last_of_chunk = of_weights && IsLastOfChunk(passes_.back());
    const BlockRange whole = writer_.chunk();
    FindPieces(last_of_chunk);
    BlockId end = whole.end;
    for (const BlockId first : first_blocks_) {
      const BlockRange blocks{first, end};
      int added = -1;
      for (const size_t pass : passes_) added = emit(pass, blocks, end == whole.end, first == whole.first);
      if (last_of_chunk) end_.Complete(blocks, added);
      end = first;
    }
  }

  // The blocks with which slices begin, where passes are cut: alike for all ranks of the unit, which go through its passes
  // together. Ranks that share a key-value head have slices that others have not.
  void FindBeginnings() {
    const auto add = [&](const std::vector<GradientSlice>& slices) {
      for (const GradientSlice& slice : slices) {
        if (slice.first_segment == kTiedSegment) continue;
        completing_.push_back(slice.completed_by);
        if (IsGatheredAtOnce(slice)) gathered_.push_back(slice.completed_by);
      }
    };
    add(program_.slices);
    if (ShareKeys(unit_, shape_.model)) {
      for (const Rank rank : RanksOf(plan_, program_.unit)) {
        if (rank != program_.rank) add(SlicesOf(plan_, rank, shape_.model));
      }
    }
    for (std::vector<BlockId>* blocks : {&completing_, &gathered_}) {
      std::sort(blocks->begin(), blocks->end(), std::greater<>());
      blocks->erase(std::unique(blocks->begin(), blocks->end()), blocks->end());
    }
  }

  // At the step's begin; otherwise never, or each time before it is used.
  bool IsGatheredAtOnce(const GradientSlice& slice) const {
    return writer_.trains() && plan_.shards_optimizer && !(slice.on_peers && unit_.parameters_have_windows());
  }

  // One piece; the last one of a chunk is cut where a slice is complete, so that its reduction
  // need not wait for the rest. Where layers are made again, a piece a block. In the order in which backward
  // goes through them.
  void FindPieces(bool last_of_chunk) {
    std::vector<BlockId>& firsts = first_blocks_;
    firsts.clear();
    if (by_block()) {
      for (int block = writer_.chunk().end - 1; block >= writer_.chunk().first; --block)
        firsts.push_back(block);
      return;
    }
    if (last_of_chunk) {
      for (const BlockId block : completing_) {
        if (block > writer_.chunk().first && block < writer_.chunk().end) firsts.push_back(block);
      }
    }
    firsts.push_back(writer_.chunk().first);
  }

  const Plan& plan_;
  const TrainingShape& shape_;
  const Purpose purpose_;
  const StepEnds ends_;
  const GoingAhead going_ahead_;
  StepWriter writer_;
  StepEnd end_;
  const Unit& unit_;
  StepProgram& program_;
  const LayersMadeAgain made_again_;
  HomedBlocks homed_blocks_;
  std::vector<UnitOp> order_;
  int instructions_ahead_ = -1;  // the first ones, of forwards that may go ahead; -1: not yet known
  std::vector<int> gathers_;     // the first instructions, of parameters that were updated in the step before
  std::vector<bool> forwarded_;  // by chunk: whether some forward has gone through it
  std::vector<std::pair<int, int>> sent_later_;  // by those, of visits and micro-batches
  bool forwards_ended_ = false;
  bool goes_together_ = false;  // all micro-batches through a layer, then through the next one
  std::vector<size_t> passes_;  // at hand, indices into order_: of one kind and chunk
  Operand made_layer_;          // by the last recompute
  int made_layers_ = 0;
  absl::InlinedVector<int, 1> last_gradient_;  // of each chunk, index into order_
  std::vector<bool> homed_;          // by content: whether its homed stash goes to host memory meanwhile
  std::vector<int> fetched_before_;  // by pass, the one whose stash is fetched before it; -1: none
  // The blocks with which slices begin, and those that are gathered at the step's begin; descending.
  std::vector<BlockId> completing_, gathered_;
  std::vector<BlockId> first_blocks_;  // of the pieces of the backward at hand
};

}  // namespace

StepProgram CompileStep(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose,
                        StepEnds ends) {
  return Compiler(plan, rank, shape, purpose, ends).Run();
}

}  // namespace medley
