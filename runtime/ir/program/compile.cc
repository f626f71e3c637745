#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/model/row_counts.h"
#include "runtime/ir/program/assign_buffers.h"
#include "runtime/ir/program/going_ahead.h"
#include "runtime/ir/program/layer_windows.h"
#include "runtime/ir/program/program.h"
#include "runtime/ir/program/schedule.h"
#include "runtime/ir/program/stash_trips.h"

namespace medley {
namespace {

class Compiler {
 public:
  Compiler(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose, StepEnds ends)
      : plan_(plan),
        shape_(shape),
        purpose_(purpose),
        ends_(ends),
        going_ahead_(plan),
        place_(PlaceOf(plan, rank)),
        unit_(plan.units[place_.unit]) {
    program_.rank = rank;
    program_.unit = place_.unit;
    program_.visits = VisitsOf(plan, place_.unit);
    DescribeUnit();
  }

  StepProgram Run() {
    order_ = OrderOfUnit(plan_, place_.unit, program_.visits);
    if (purpose_ == Purpose::kEvaluate) {
      std::erase_if(order_, [](const UnitOp& op) {
        return op.kind != OpKind::kForward && op.kind != OpKind::kReceiveActivation;
      });
    }
    if (recomputes() || windows_here()) {
      // What the weights' gradients need would have to be made, or fetched, a second time: they come with the
      // inputs'.
      std::erase_if(order_, [](const UnitOp& op) { return op.kind == OpKind::kWeightGradient; });
      for (UnitOp& op : order_) {
        if (op.kind == OpKind::kInputGradient) op.kind = OpKind::kBackward;
      }
    }
    PutAheadFirst();
    if (purpose_ == Purpose::kTrain || unit_.lives_on_peers())
      program_.slices = SlicesOf(plan_, program_.rank, shape_.model);
    for (const Visit& visit : program_.visits) {
      first_content_.push_back(contents_);
      contents_ += visit.micro_batches;
    }
    forwarded_.assign(unit_.chunks.size(), false);
    FindLastGradients();
    FindHomed();
    OpenWindows();
    if (purpose_ == Purpose::kTrain && plan_.shards_optimizer) EmitGathers();
    EmitPasses();
    program_.buffers = AssignBuffers(program_.instructions);
    program_.buffers.stash.resize(unit_.chunks.size());
    program_.buffers.deferred.resize(unit_.chunks.size());
    program_.buffers.stash_home.resize(unit_.chunks.size());
    DescribeUnit();
    program_.buffers.recompute = unit_.recompute;
    program_.buffers.activations = program_.buffers.narrowest = unit_.activations;
    for (const Visit& visit : program_.visits) {
      for (const UnitId other : {visit.previous, visit.next}) {
        if (other >= 0)
          program_.buffers.narrowest = NarrowerOf(program_.buffers.narrowest, TypeAcross(other));
      }
    }
    if (purpose_ == Purpose::kTrain) EmitReductions();
    EmitEnd();
    return WithEnds(program_, instructions_ahead_, ends_);
  }

 private:
  using OpKind = UnitOp::Kind;

  void DescribeUnit() {
    program_.buffers.ranks = static_cast<int>(unit_.devices.size());
    program_.buffers.member = place_.member;
    program_.buffers.sequence_parallel = unit_.sequence_parallel;
    program_.buffers.exchange_parts = unit_.exchange_parts;
    program_.buffers.windows = unit_.window_layers;
    program_.buffers.home = unit_.layers_home;
    program_.buffers.goes_ahead = purpose_ == Purpose::kTrain && going_ahead_.ForwardsOf(place_.unit) > 0;
  }

  bool GoesAhead(StageId stage, MicroBatchId micro_batch) const {
    return purpose_ == Purpose::kTrain && going_ahead_.Contains(stage, micro_batch);
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
      visit_ = visit;
      EmitMessages(InstructionKind::kSendActivation, Stream::kSendActivation, i);
    }
    sent_later_.clear();
  }

  // The passes with their messages. Their operands name contents by visit and micro-batch; buffers come
  // later.
  void EmitPasses() {
    // A pass, and a message on each side.
    program_.instructions.reserve(3 * order_.size() + 3 * program_.slices.size() + 3);
    for (size_t i = 0; i < order_.size();) {
      if (instructions_ahead_ < 0 && !GoesAhead(order_[i])) EndAhead();
      // Those that go through the chunk together, a piece at a time.
      passes_.clear();
      const OpKind kind = order_[i].kind;
      for (bool first = true; i < order_.size() && (first || GoesOn(kind, order_[i])); first = false, ++i) {
        visit_ = order_[i].visit;
        if (order_[i].kind == OpKind::kReceiveActivation || order_[i].kind == OpKind::kReceiveGradient) {
          EmitReceive(order_[i]);
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

  void EmitReceive(const UnitOp& op) {
    if (op.kind == OpKind::kReceiveActivation) {
      EmitMessages(InstructionKind::kReceiveActivation, Stream::kReceiveActivation, op.micro_batch);
    } else {
      EmitMessages(InstructionKind::kReceiveGradient, Stream::kReceiveGradient, op.micro_batch);
    }
  }

  bool recomputes() const { return unit_.recompute != Recompute::kNone; }
  bool windows_here() const { return unit_.has_windows(); }
  // Whether a piece of a pass is one block.
  bool by_block() const { return recomputes() || windows_here(); }
  bool IsHomedOnHost(BlockId block) const { return unit_.lives_on_host() && shape_.model.is_layer(block); }
  // Whether a layer's gradients, or its parameters, have windows.
  bool HasWindow(BlockId block) const { return windows_here() && shape_.model.is_layer(block); }
  bool HasParameterWindow(BlockId block) const {
    return unit_.parameters_have_windows() && shape_.model.is_layer(block);
  }

  // The passes at hand, from now on of `pass`; its micro-batch.
  int Enter(size_t pass) {
    visit_ = order_[pass].visit;
    return order_[pass].micro_batch;
  }
  bool IsLastOfChunk(size_t pass) const { return last_gradient_[at().chunk] == static_cast<int>(pass); }

  // Whether micro-batches may pass all layers one after another, and each layer is fetched once all the same. Where layers
  // live with their holders one that has fewer windows would have to give back a window for a gather that a
  // micro-batch waits for, which others wait for in turn.
  bool EachLayerStaysInItsWindow() const {
    return unit_.lives_on_peers() ? HasWindowsForAllLayers(plan_, shape_.model)
                                  : unit_.window_layers >= LayersOf(unit_, shape_.model);
  }

  void OpenWindows() {
    if (!windows_here()) return;
    // A unit that is passed again may have to send before it gets all that it waits for.
    // All micro-batches of a layer at a time keep what they keep until the last layer.
    goes_together_ = plan_.schedule == Schedule::kGPipe && PassesEachUnitOnce(plan_) &&
                     unit_.activations_home == ActivationsHome::kDevice && !EachLayerStaysInItsWindow();
    std::optional<OptimizerShard> optimizer;
    if (plan_.shards_optimizer) optimizer = OptimizerShardOf(plan_, program_.rank, shape_.model);
    layer_elements_ = LayerElementsOf(LocalModel(shape_.model, ShareOf(plan_, program_.rank, shape_.model)),
                                      unit_.chunks, optimizer.has_value() ? &*optimizer : nullptr);
    windows_.emplace(unit_, layer_elements_, program_);
  }

  // Layers that live with their holders are gathered anew for the backwards, by all of them, whatever their windows
  // still have.
  void EndForwards() {
    if (!unit_.lives_on_peers() || forwards_ended_) return;
    windows_->DropAll(BufferKind::kParameterWindow);
    forwards_ended_ = true;
  }

  // Adds a pass's piece to the compute stream, with the windows of its layer.
  int AddPiece(Instruction piece) {
    using Use = LayerWindows::Use;
    const BlockId layer = piece.blocks.first;
    if (HasParameterWindow(layer)) windows_->Need(piece, BufferKind::kParameterWindow, layer, Use::kRead);
    if (HasWindow(layer) && IsGradient(piece.kind))
      windows_->Need(piece, BufferKind::kGradientWindow, layer, Use::kChange);
    const int added = Add(piece);
    if (windows_here()) windows_->Added(added);
    return added;
  }
  const Visit& at() const { return program_.visits[visit_]; }
  const BlockRange& chunk() const { return unit_.chunks[at().chunk]; }
  // What travels has its other end at the stage before, or at the next one; there may be one unit at both.
  static bool IsBefore(BufferKind kind) {
    return kind == BufferKind::kInput || kind == BufferKind::kInputGradient;
  }
  UnitId OtherEnd(BufferKind kind) const { return IsBefore(kind) ? at().previous : at().next; }
  // The content of micro-batch `i`; read, unless more is said.
  Operand Use(BufferKind kind, int i) const {
    return {.buffer = {kind, first_content_[visit_] + i, IsOfChunk(kind) ? at().chunk : 0},
            .dtype = Travels(kind) ? TypeAcross(OtherEnd(kind)) : Dtype::kF32};
  }
  // What is made of a layer: a content of its own each time.
  Operand MakeLayer(bool releases) {
    return {.buffer = {BufferKind::kRecomputed, made_layers_++},
            .fills = true,
            .writes = true,
            .releases = releases};
  }
  Operand Fill(BufferKind kind, int i) const {
    Operand operand = Use(kind, i);
    operand.fills = true;
    return operand;
  }
  Operand Write(BufferKind kind, int i, bool fills) const {
    Operand operand = Use(kind, i);
    operand.fills = fills;
    operand.writes = true;
    return operand;
  }
  Operand Read(BufferKind kind, int i, bool releases) const {
    Operand operand = Use(kind, i);
    operand.releases = releases;
    return operand;
  }
  // What the forward kept: where it left it, or where it has been fetched to, which is a content of its own.
  Operand UseKept(int i) const {
    Operand kept = Use(BufferKind::kStash, i);
    if (homed_[kept.buffer.index]) kept.buffer.index += contents_;
    return kept;
  }
  Operand ReadKept(int i, bool releases) const {
    Operand kept = UseKept(i);
    kept.releases = releases;
    return kept;
  }

  // A piece of each pass, then the next piece of each; with layers on the device a pass is one piece.
  void EmitForwards() {
    const bool trains = purpose_ == Purpose::kTrain;
    for (const size_t pass : passes_) {
      const int i = Enter(pass);
      if (!at().first()) Gather(InstructionKind::kGatherActivation, BufferKind::kInput, i);
    }
    Enter(passes_.front());
    const BlockRange whole = chunk();
    const bool first_of_chunk = !forwarded_[at().chunk];
    forwarded_[at().chunk] = true;
    for (BlockRange piece{whole.first, whole.first}; piece.end < whole.end; piece.first = piece.end) {
      piece.end = windows_here()   ? BlockId(piece.first + 1)
                  : first_of_chunk ? EndOfGathered(piece.first)
                                   : whole.end;
      const bool begins = piece.first == whole.first, ends = piece.end == whole.end;
      for (const size_t pass : passes_) {
        const int i = Enter(pass);
        Instruction forward = Make(InstructionKind::kForward, Stream::kCompute, i);
        forward.blocks = piece;
        if (first_of_chunk) forward.WaitFor(GatheredBy(piece));
        forward.operands[0] = Write(BufferKind::kStash, i, begins);
        forward.operands[0].releases = !trains && ends;
        if (!at().first() && begins) forward.operands[1] = Read(BufferKind::kInput, i, !trains);
        if (!at().last() && ends) forward.operands[2] = Fill(BufferKind::kOutput, i);
        if (recomputes() && HaveLayer(shape_.model, {piece})) forward.operands[3] = MakeLayer(true);
        last_forward_ = AddPiece(forward);
        if (ends && homed_[forward.operands[0].buffer.index]) EmitStoreOfStash(i);
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
        if (slices[s].on_peers && unit_.parameters_have_windows())
          continue;  // each time before they are used
        const int gather = Add(MakeOfSlice(InstructionKind::kGatherParameters, s));
        gathers_.push_back(gather);
        for (SegmentId segment = slices[s].first_segment; segment < slices[s].end_segment; ++segment) {
          if (slices[s].in_host_memory && segment != kTiedSegment)
            windows_->HomeChanged(BufferKind::kParameterWindow, BlockOfSegment(segment), gather);
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
    BlockId end = chunk().end;
    for (const int gather : gathers_) {
      const SegmentId segment = program_.slices[program_.instructions[gather].slice].first_segment;
      if (segment != kTiedSegment && BlockOfSegment(segment) > first)
        end = std::min(end, BlockOfSegment(segment));
    }
    return end;
  }

  void EmitSendOfOutput(int i) {
    const MicroBatchId micro_batch = at().first_micro_batch + i;
    if (GoesAhead(at().stage, micro_batch) && !GoesAhead(at().stage + 1, micro_batch)) {
      sent_later_.emplace_back(visit_, i);
    } else {
      EmitMessages(InstructionKind::kSendActivation, Stream::kSendActivation, i);
    }
  }

  // Both gradients, or that of the input alone: what it leaves for the other one is not released then.
  void EmitBackwards(InstructionKind kind) {
    for (const size_t pass : passes_) {
      const int i = Enter(pass);
      if (!at().last()) Gather(InstructionKind::kGatherGradient, BufferKind::kOutputGradient, i);
    }
    const bool both = kind == InstructionKind::kBackward;
    ForEachPiece(both, [&](size_t pass, BlockRange blocks, bool begins, bool ends) {
      const int i = Enter(pass);
      const bool made_again = recomputes() && HaveLayer(shape_.model, {blocks});
      if (made_again) EmitRecompute(i, blocks);
      Instruction piece = Make(kind, Stream::kCompute, i);
      piece.blocks = blocks;
      if (made_again) {
        piece.operands[4] = made_layer_;
        piece.operands[4].releases = true;
      }
      piece.operands[0] = ReadKept(i, both && ends);
      if (!at().first()) {
        piece.operands[1] = Read(BufferKind::kInput, i, both && ends);
        piece.operands[2] = Write(BufferKind::kInputGradient, i, begins);
      }
      if (!at().last() && begins) piece.operands[3] = Read(BufferKind::kOutputGradient, i, both);
      if (!both) piece.operands[4] = Fill(BufferKind::kDeferred, i);
      if (KeepsStreamGradient() && !(begins && ends)) {
        Operand stream = Write(BufferKind::kStreamGradient, i, begins);
        stream.releases = ends;
        piece.Add(stream);
      }
      const int added = AddPiece(piece);
      if (ends && !at().first()) EmitMessages(InstructionKind::kSendGradient, Stream::kSendGradient, i);
      return added;
    });
  }

  // Whether other micro-batches' pieces come between those of the backward at hand, and the gradient of the residual
  // stream is not kept where it leaves the unit.
  bool KeepsStreamGradient() const {
    return passes_.size() > 1 && (at().first() || TypeAcross(at().previous) != unit_.activations);
  }

  void EmitRecompute(int i, BlockRange blocks) {
    Instruction recompute = Make(InstructionKind::kRecompute, Stream::kCompute, i);
    recompute.blocks = blocks;
    recompute.operands[0] = MakeLayer(false);
    recompute.operands[1] = ReadKept(i, false);
    if (!at().first()) recompute.operands[2] = Read(BufferKind::kInput, i, false);
    made_layer_ = recompute.operands[0];
    made_layer_.fills = false;
    AddPiece(recompute);
  }

  void EmitWeightGradient() {
    ForEachPiece(true, [&](size_t pass, BlockRange blocks, bool begins, bool ends) {
      const int i = Enter(pass);
      Instruction piece = Make(InstructionKind::kWeightGradient, Stream::kCompute, i);
      piece.blocks = blocks;
      piece.operands[0] = ReadKept(i, ends);
      if (!at().first()) piece.operands[1] = Read(BufferKind::kInput, i, ends);
      if (!at().last() && begins) piece.operands[2] = Read(BufferKind::kOutputGradient, i, true);
      piece.operands[3] = Read(BufferKind::kDeferred, i, ends);
      return Add(piece);
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
    homed_.assign(contents_, false);
    fetched_before_.assign(order_.size(), -1);
    if (unit_.activations_home == ActivationsHome::kDevice || purpose_ == Purpose::kEvaluate) return;
    for (const StashTrip& trip :
         StashTripsOf(order_, program_.visits, static_cast<int>(unit_.chunks.size()))) {
      homed_[first_content_[order_[trip.forward].visit] + order_[trip.forward].micro_batch] = true;
      fetched_before_[trip.fetched_before] = trip.gradient;
    }
  }

  void EmitStoreOfStash(int i) {
    Instruction store = Make(InstructionKind::kStore, Stream::kStore, i);
    store.operands[0] = Read(BufferKind::kStash, i, true);
    store.operands[1] = Fill(BufferKind::kStashHome, i);
    AddCopyOfStash(store);
  }
  void EmitFetchOfStash(int pass) {
    const int i = Enter(pass);
    Instruction fetch = Make(InstructionKind::kFetch, Stream::kFetch, i);
    fetch.operands[0] = UseKept(i);
    fetch.operands[0].fills = fetch.operands[0].writes = true;
    fetch.operands[1] = Read(BufferKind::kStashHome, i, true);
    AddCopyOfStash(fetch);
  }
  void AddCopyOfStash(Instruction copy) {
    copy.blocks = chunk();
    copy.bytes = StashBytes(LocalModel(shape_.model, ShareOf(plan_, program_.rank, shape_.model)), chunk(),
                            RowCountsOf(program_.buffers, Rows()), unit_.activations, unit_.recompute);
    Add(copy);
  }

  // Calls emit(pass, blocks, whether they are the chunk's last ones, whether its first), which returns the
  // instruction's index, for each of the passes at hand, piece by piece in the order in which backward goes through
  // them. `of_weights`: they make weights' gradients.
  template <typename Emit>
  void ForEachPiece(bool of_weights, const Emit& emit) {
    Enter(passes_.back());
    const bool last_of_chunk = of_weights && IsLastOfChunk(passes_.back());
    const BlockRange whole = chunk();
    FindPieces(last_of_chunk);
    BlockId end = whole.end;
    for (const BlockId first : first_blocks_) {
      const BlockRange blocks{first, end};
      int added = -1;
      for (const size_t pass : passes_) added = emit(pass, blocks, end == whole.end, first == whole.first);
      if (last_of_chunk) EndPiece(blocks, added);
      end = first;
    }
  }

  // Nothing more is added to the gradients of `blocks`. Those of a layer that lives elsewhere go home: to be summed with
  // other holders', on the way there if these are their home, or with their norm for the update to come.
  void EndPiece(BlockRange blocks, int added) {
    if (NormElements(shape_.model, blocks) > 0 && program_.buffers.sequence_parallel)
      added = EmitJoin(blocks);
    if (HasWindow(blocks.first)) {
      if (IsShared(blocks.first)) {
        added = windows_->Store(BufferKind::kGradientWindow, blocks.first);
      } else {
        EmitNormOfLayer(blocks.first);
      }
    }
    pieces_.push_back({blocks, added});
  }

  bool IsShared(BlockId block) const {
    const SegmentId segment = SegmentOfBlock(block);
    return std::any_of(program_.slices.begin(), program_.slices.end(), [&](const GradientSlice& slice) {
      return slice.first_segment <= segment && segment < slice.end_segment;
    });
  }

  void EmitNormOfLayer(BlockId block) {
    Instruction norm = Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
    norm.blocks = {block, block + 1};
    windows_->Need(norm, BufferKind::kGradientWindow, block, LayerWindows::Use::kRead);
    windows_->Added(Add(norm));
  }

  // The norms' gradients are complete once the weights' are.
  int EmitJoin(BlockRange blocks) {
    Instruction join = Make(InstructionKind::kJoinGradients, Stream::kCompute, -1);
    join.visit = visit_;
    join.chunk = at().chunk;
    join.blocks = blocks;
    join.bytes = {NormElements(shape_.model, blocks) * SizeOf(Dtype::kF32).value};
    if (HasWindow(blocks.first))
      windows_->Need(join, BufferKind::kGradientWindow, blocks.first, LayerWindows::Use::kChange);
    const int added = Add(join);
    if (windows_here()) windows_->Added(added);
    return added;
  }

  // One piece; the last one of a chunk is cut where a slice is complete, so that its reduction
  // need not wait for the rest. Where layers are made again, a piece a block. In the order in which backward
  // goes through them.
  void FindPieces(bool last_of_chunk) {
    std::vector<BlockId>& firsts = first_blocks_;
    firsts.clear();
    if (by_block()) {
      for (int block = chunk().end - 1; block >= chunk().first; --block) firsts.push_back(block);
      return;
    }
    if (last_of_chunk) {
      for (const GradientSlice& slice : program_.slices) {
        const BlockId block = slice.completed_by;
        if (slice.first_segment != kTiedSegment && block > chunk().first && block < chunk().end)
          firsts.push_back(block);
      }
      std::sort(firsts.begin(), firsts.end(), std::greater<>());
      firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
    }
    firsts.push_back(chunk().first);
  }

  // The piece of a chunk's last backward that goes through `block`; -1: no chunk has it.
  int PieceThrough(BlockId block) const {
    const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                    [&](const Piece& p) { return p.blocks.contains(block); });
    return piece == pieces_.end() ? -1 : piece->instruction;
  }

  void EmitReductions() {
    for (int s = 0; s < static_cast<int>(program_.slices.size()); ++s) {
      const GradientSlice& slice = program_.slices[s];
      if (slice.on_peers) {
        // They have been scattered, one after another.
        last_scatter_ = std::max(last_scatter_, PieceThrough(slice.completed_by));
        continue;
      }
      Instruction reduce = MakeOfSlice(
          plan_.shards_optimizer ? InstructionKind::kScatterGradients : InstructionKind::kReduceGradients, s);
      reduce.waits_for[0] = PieceThrough(slice.completed_by);
      // A unit with both ends of a model may go through them for different routes.
      if (slice.first_segment == kTiedSegment) {
        reduce.waits_for[0] = std::max(reduce.waits_for[0], PieceThrough(shape_.model.head_block()));
      }
      // The pieces of a slice end in the order of its blocks.
      last_reduce_ = Add(reduce);
      for (SegmentId segment = slice.first_segment; segment < slice.end_segment; ++segment) {
        if (slice.in_host_memory && segment != kTiedSegment)
          windows_->HomeChanged(BufferKind::kGradientWindow, BlockOfSegment(segment), last_reduce_);
      }
    }
    if (unit_.lives_on_host()) EmitNormsOfSharedLayers();
    Instruction norm = Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
    norm.waits_for[0] = last_reduce_;  // the compute stream keeps it behind the backwards
    norm.WaitFor(last_scatter_);
    last_compute_ = Add(norm);
  }

  // Of their sums, where this rank answers for some of them.
  void EmitNormsOfSharedLayers() {
    ForEachLayer([&](BlockId block) {
      const auto counts = [&](const GradientSlice& slice) {
        return slice.first_segment <= SegmentOfBlock(block) && SegmentOfBlock(block) < slice.end_segment &&
               (plan_.shards_optimizer || PlaceOf(plan_, slice.holders.front()).unit == program_.unit);
      };
      if (std::any_of(program_.slices.begin(), program_.slices.end(), counts)) EmitNormOfLayer(block);
    });
  }

  template <typename Visit>
  void ForEachLayer(const Visit& visit) const {
    for (const BlockRange& range : unit_.chunks) {
      for (BlockId block = range.first; block < range.end; ++block) {
        if (shape_.model.is_layer(block)) visit(block);
      }
    }
  }

  void EmitEnd() {
    Instruction scalars = Make(InstructionKind::kReduceScalars, Stream::kCollective, -1);
    scalars.bytes = {int64_t{8} * ScalarCount(shape_.model)};
    scalars.waits_for[0] = purpose_ == Purpose::kTrain ? last_compute_ : last_forward_;
    const int reduced = Add(scalars);
    if (purpose_ != Purpose::kTrain) return;
    Instruction update = Make(InstructionKind::kUpdateParameters, Stream::kCompute, -1);
    update.waits_for[0] = reduced;
    Add(update);
    if (!unit_.lives_on_host()) return;
    ForEachLayer([&](BlockId block) { EmitUpdateOfLayer(block); });
    windows_->StoreAll();
  }

  void EmitUpdateOfLayer(BlockId block) {
    using Use = LayerWindows::Use;
    Instruction update = Make(InstructionKind::kUpdateParameters, Stream::kCompute, -1);
    update.blocks = {block, block + 1};
    windows_->Need(update, BufferKind::kParameterWindow, block, Use::kChange);
    windows_->Need(update, BufferKind::kGradientWindow, block, Use::kRead);
    windows_->Need(update, BufferKind::kMomentWindow, block, Use::kChange);
    windows_->Added(Add(update));
    windows_->Drop(BufferKind::kGradientWindow, block);
  }

  Instruction MakeOfSlice(InstructionKind kind, int slice) const {
    Instruction instruction = Make(kind, Stream::kCollective, -1);
    instruction.slice = slice;
    instruction.bytes = {program_.slices[slice].elements * SizeOf(Dtype::kF32).value};
    return instruction;
  }

  Instruction Make(InstructionKind kind, Stream stream, int i) const {
    Instruction instruction{.kind = kind, .stream = stream};
    if (i < 0) return instruction;
    instruction.visit = visit_;
    instruction.chunk = at().chunk;
    instruction.micro_batch = at().first_micro_batch + i;
    return instruction;
  }

  // The ranks of a unit give each other what they have received, if they need more than their own rows.
  void Gather(InstructionKind kind, BufferKind buffer, int i) {
    if (program_.buffers.ranks < 2 || program_.buffers.sequence_parallel) return;
    Instruction gather = Make(kind, Stream::kCompute, i);
    gather.operands[0] = Write(buffer, i, false);
    gather.bytes = {BytesOfRow(buffer) * Rows()};
    Add(gather);
  }

  static BufferKind CarriedBy(InstructionKind message) {
    switch (message) {
      case InstructionKind::kReceiveActivation:
        return BufferKind::kInput;
      case InstructionKind::kSendActivation:
        return BufferKind::kOutput;
      case InstructionKind::kReceiveGradient:
        return BufferKind::kOutputGradient;
      default:
        return BufferKind::kInputGradient;
    }
  }

  // What crosses a boundary is cut by rows, into as many parts as the receiving unit has ranks and into as
  // many as the sending one has: each rank receives its own part, whatever lies in one of the sending ranks'
  // parts from that one, so that each byte crosses once. The ranks of a unit hold all rows of what they send,
  // or, in sequence parallelism, those of their own parts; then their buffers begin with these.
  void EmitMessages(InstructionKind kind, Stream stream, int i) {
    const bool receives = IsReceive(kind);
    const BufferKind carried = CarriedBy(kind);
    const UnitId other = OtherEnd(carried);
    const int other_parts = static_cast<int>(plan_.units[other].devices.size());
    const std::vector<int64_t> own_ends = RowEnds(Rows(), program_.buffers.ranks),
                               other_ends = RowEnds(Rows(), other_parts);
    const auto first_of = [](const std::vector<int64_t>& ends, int part) {
      return part == 0 ? int64_t{0} : ends[part - 1];
    };
    const int64_t first_held = OwnRows(program_.buffers, Rows()).first;
    const Rank first_peer = FirstRankOf(plan_, other);
    const size_t first_message = program_.instructions.size();
    for (int part = 0; part < other_parts; ++part) {
      const int64_t first = std::max(first_of(own_ends, place_.member), first_of(other_ends, part)),
                    end = std::min(own_ends[place_.member], other_ends[part]);
      if (first >= end) continue;
      Instruction message = Make(kind, stream, i);
      message.peer = first_peer + part;
      message.boundary = IsBefore(carried) ? StageId(at().stage - 1) : at().stage;
      message.offset = {BytesOfRow(carried) * (first - first_held)};
      message.bytes = {BytesOfRow(carried) * (end - first)};
      message.operands[0] = Use(carried, i);
      message.operands[0].writes = receives;
      Add(message);
    }
    (receives ? program_.instructions[first_message].operands[0].fills
              : program_.instructions.back().operands[0].releases) = true;
  }

  int64_t Rows() const { return int64_t{at().micro_batch_sequences} * shape_.sequence; }
  // What is stored of a content that crosses the boundary to `other`.
  Dtype TypeAcross(UnitId other) const {
    return NarrowerOf(unit_.activations, plan_.units[other].activations);
  }
  int64_t BytesOfRow(BufferKind kind) const {
    return SizeOf(TypeAcross(OtherEnd(kind))).value * shape_.model.hidden;
  }

  int Add(const Instruction& instruction) {
    program_.instructions.push_back(instruction);
    return static_cast<int>(program_.instructions.size()) - 1;
  }

  const Plan& plan_;
  const TrainingShape& shape_;
  const Purpose purpose_;
  const StepEnds ends_;
  const GoingAhead going_ahead_;
  const RankPlace place_;
  const Unit& unit_;
  StepProgram program_;
  std::vector<UnitOp> order_;
  int instructions_ahead_ = -1;  // the first ones, of forwards that may go ahead; -1: not yet known
  std::vector<int> gathers_;     // the first instructions, of parameters that were updated in the step before
  std::vector<bool> forwarded_;  // by chunk: whether some forward has gone through it
  std::vector<std::pair<int, int>> sent_later_;  // by those, of visits and micro-batches
  bool forwards_ended_ = false;
  bool goes_together_ = false;  // all micro-batches through a layer, then through the next one
  std::vector<size_t> passes_;  // at hand, indices into order_: of one kind and chunk
  LayerElements layer_elements_;
  std::optional<LayerWindows> windows_;        // none: the layers live on the device
  Operand made_layer_;                         // by the last recompute
  int visit_ = 0;                              // of the op at hand, index into program_.visits
  absl::InlinedVector<int, 1> first_content_;  // of each visit
  int contents_ = 0, made_layers_ = 0;
  absl::InlinedVector<int, 1> last_gradient_;  // of each chunk, index into order_
  std::vector<bool> homed_;                    // by content: whether the stash goes to host memory meanwhile
  std::vector<int> fetched_before_;            // by pass, the one whose stash is fetched before it; -1: none
  std::vector<BlockId> first_blocks_;          // of the pieces of the backward at hand
  // A piece of a chunk's last backward.
  struct Piece {
    BlockRange blocks;
    int instruction;  // which its gradients are complete behind
  };
  std::vector<Piece> pieces_;
  int last_forward_ = -1, last_reduce_ = -1, last_scatter_ = -1, last_compute_ = -1;
};

}  // namespace

StepProgram CompileStep(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose,
                        StepEnds ends) {
  return Compiler(plan, rank, shape, purpose, ends).Run();
}

}  // namespace medley
