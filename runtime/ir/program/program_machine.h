#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/ir/program/going_ahead.h"
#include "runtime/ir/program/program.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {

// Runs the programs of all ranks together, one instruction after another in a random order that the programs
// allow. A message takes both ends at once, a collective of a slice all holders, a pass and a gathering all ranks of a
// unit. Watches the buffers: a buffer must be free when it is filled and hold the right micro-batch when it
// is read, all rows of it.
class ProgramMachine {
 public:
  // `steps`: of training, in a row, beyond which what was made ahead of the next one is left.
  ProgramMachine(const PlannedShape& planned, Purpose purpose, uint64_t seed, int steps = 1)
      : planned_(planned), purpose_(purpose), steps_(steps), state_(seed) {
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      programs_.push_back(steps == 1 ? CompileStep(planned.plan, rank, planned.shape, purpose)
                                     : StepsInARow(planned.plan, rank, planned.shape, steps));
      done_.emplace_back(programs_.back().instructions.size(), false);
      if (purpose != Purpose::kTrain || steps > 1) continue;
      Updated(rank, {});
      for (BlockId block = 0; block < planned.shape.model.blocks(); ++block)
        Updated(rank, {block, block + 1});
    }
  }

  // Whether every instruction was executed.
  bool Run() {
    while (true) {
      std::vector<std::vector<std::pair<int, int>>> choices;
      for (int r = 0; r < static_cast<int>(programs_.size()); ++r) {
        for (const int i : Heads(r)) {
          auto together = WithItsOtherEnds(r, i);
          if (!together.empty() && together.front() == std::pair(r, i))
            choices.push_back(std::move(together));
        }
      }
      if (choices.empty()) break;
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      const auto& chosen = choices[(state_ >> 33) % choices.size()];
      for (const auto& [r, i] : chosen) Execute(r, programs_[r].instructions[i]);
      for (const auto& [r, i] : chosen) done_[r][i] = true;
    }
    for (const auto& done : done_) {
      if (std::find(done.begin(), done.end(), false) != done.end()) return false;
    }
    int micro_batches = 0;
    for (const Route& route : planned_.plan.routes) micro_batches += route.micro_batches;
    for (const auto& [key, content] : held_)
      CHECK((steps_ > 1 && content.micro_batch >= steps_ * micro_batches));
    CheckHome();
    return true;
  }

  int peak_stash(int rank, int chunk) const {
    const auto peak = peak_stash_.find({rank, chunk});
    return peak == peak_stash_.end() ? 0 : peak->second;
  }
  // How often a layer that lives with its holders has been gathered.
  int gathered(int rank, BlockId layer) const {
    const auto times = gathered_.find({rank, layer.value()});
    return times == gathered_.end() ? 0 : times->second;
  }
  const std::vector<StepProgram>& programs() const { return programs_; }

 private:
  using Kind = InstructionKind;
  struct Content {
    int micro_batch, visit;
    std::vector<std::pair<int64_t, int64_t>> received;  // of what travels, bytes
  };

  const BlockRange& ChunkOf(int rank, const Instruction& i) const {
    return planned_.plan.units[programs_[rank].unit].chunks[i.chunk];
  }
  const Visit& VisitOf(int rank, const Instruction& i) const { return programs_[rank].visits[i.visit]; }

  // The next instruction of each stream whose waits are over.
  std::vector<int> Heads(int rank) const {
    std::vector<int> heads;
    std::set<Stream> seen;
    const auto& instructions = programs_[rank].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (done_[rank][i] || !seen.insert(instructions[i].stream).second) continue;
      const auto& waits = instructions[i].waits_for;
      if (std::all_of(waits.begin(), waits.end(), [&](int w) { return w < 0 || done_[rank][w]; }))
        heads.push_back(i);
    }
    return heads;
  }

  int HeadLike(int rank, const auto& matches) const {
    for (const int i : Heads(rank)) {
      if (matches(programs_[rank].instructions[i])) return i;
    }
    return -1;
  }

  // All (rank, instruction) that happen at once with this one, itself included, ascending; empty if not all
  // are ready.
  std::vector<std::pair<int, int>> WithItsOtherEnds(int rank, int index) const {
    const Instruction& one = programs_[rank].instructions[index];
    std::vector<std::pair<int, int>> together;
    const auto add = [&](int r, int i) {
      if (i >= 0) together.push_back({r, i});
      return i >= 0;
    };
    if ((one.kind == Kind::kSendActivation || one.kind == Kind::kSendGradient) || IsReceive(one.kind)) {
      const Kind other = one.kind == Kind::kSendActivation      ? Kind::kReceiveActivation
                         : one.kind == Kind::kReceiveActivation ? Kind::kSendActivation
                         : one.kind == Kind::kSendGradient      ? Kind::kReceiveGradient
                                                                : Kind::kSendGradient;
      add(rank, index);
      const int peer = HeadLike(one.peer, [&](const Instruction& i) {
        return i.kind == other && i.peer == rank && i.micro_batch == one.micro_batch &&
               i.boundary == one.boundary && FirstByte(one.peer, i) == FirstByte(rank, one) &&
               i.bytes == one.bytes;
      });
      if (!add(one.peer, peer)) return {};
    } else if (IsOfSlice(one.kind)) {
      const GradientSlice& slice = programs_[rank].slices[one.slice];
      for (const Rank holder : slice.holders) {
        const int i = HeadLike(holder, [&](const Instruction& other) {
          if (other.kind != one.kind) return false;
          const GradientSlice& same = programs_[holder].slices[other.slice];
          return same.first_segment == slice.first_segment && same.end_segment == slice.end_segment &&
                 same.elements == slice.elements && same.turn == slice.turn &&
                 same.holders == slice.holders && same.shares == slice.shares;
        });
        if (!add(holder, i)) return {};
      }
    } else if (one.kind == Kind::kReduceScalars) {
      for (int r = 0; r < static_cast<int>(programs_.size()); ++r) {
        if (!add(r, HeadLike(r, [](const Instruction& i) { return i.kind == Kind::kReduceScalars; })))
          return {};
      }
    } else if (one.kind == Kind::kFetch || one.kind == Kind::kStore) {
      add(rank, index);
    } else {
      // The ranks of a unit exchange within a pass.
      const UnitId unit = programs_[rank].unit;
      const Rank first = FirstRankOf(planned_.plan, unit);
      for (size_t member = 0; member < planned_.plan.units[unit].devices.size(); ++member) {
        const int r = first + static_cast<int>(member);
        if (!add(r, HeadLike(r, [&](const Instruction& i) {
                   return i.kind == one.kind && i.micro_batch == one.micro_batch && i.visit == one.visit &&
                          i.blocks == one.blocks;
                 })))
          return {};
      }
    }
    std::sort(together.begin(), together.end());
    return together;
  }

  // What an instruction needs by its kind and place, told apart from what the compiler gave it.
  std::set<BufferKind> Needs(int rank, const Instruction& i) const {
    switch (i.kind) {
      case Kind::kReceiveActivation:
      case Kind::kGatherActivation:
        return {BufferKind::kInput};
      case Kind::kSendActivation:
        return {BufferKind::kOutput};
      case Kind::kReceiveGradient:
      case Kind::kGatherGradient:
        return {BufferKind::kOutputGradient};
      case Kind::kSendGradient:
        return {BufferKind::kInputGradient};
      case Kind::kFetch:
      case Kind::kStore:
        if (i.micro_batch >= 0) return {BufferKind::kLeavingStash, BufferKind::kStashHome};
        return {};
      default:
        if (!IsPass(i.kind)) return {};
    }
    const bool first = VisitOf(rank, i).first(), last = VisitOf(rank, i).last();
    const bool forward = i.kind == Kind::kForward;
    std::set<BufferKind> needs;
    for (const BufferKind kind : {BufferKind::kLeavingStash, BufferKind::kStash}) {
      if (UsesKept(i.blocks, KeptIn(rank, i, kind))) needs.insert(kind);
    }
    if (MakesAgain(rank, i.blocks)) needs.insert(BufferKind::kRecomputed);
    if (!first && (!forward || Ends(rank, i))) needs.insert(BufferKind::kInput);
    if (forward && !last && Begins(rank, i)) needs.insert(BufferKind::kOutput);
    const bool of_input = i.kind == Kind::kBackward || i.kind == Kind::kInputGradient;
    if (of_input && !first) needs.insert(BufferKind::kInputGradient);
    if (IsGradient(i.kind) && !last && Begins(rank, i)) needs.insert(BufferKind::kOutputGradient);
    if (IsGradient(i.kind) && i.kind != Kind::kBackward) needs.insert(BufferKind::kDeferred);
    return needs;
  }

  // Who writes first into a buffer finds it empty, who reads finds its micro-batch, who is last leaves it
  // empty.
  void Execute(int rank, const Instruction& i) {
    CAPTURE(rank, NameOf(i.kind), i.micro_batch.value(), i.visit, i.blocks.first.value(),
            i.blocks.end.value());
    if (i.micro_batch >= 0) REQUIRE(i.chunk == VisitOf(rank, i).chunk);
    if (i.kind == Kind::kUpdateParameters) Updated(rank, i.blocks);
    if (IsPass(i.kind) || (i.kind == Kind::kFetch && WindowsOf(i).contains(BufferKind::kParameterWindow)))
      CheckUpdated(rank, i.blocks);
    if (i.kind == Kind::kGatherParameters && WindowsOf(i).empty())
      CHECK(owners_alone_.erase({rank, i.slice}) == 1);
    std::set<BufferKind> given;
    for (const Operand& operand : i.operands) {
      const auto& [kind, index, chunk] = operand.buffer;
      if (index < 0) continue;
      if (IsWindow(kind)) {
        UseWindow(rank, i, operand);
        continue;
      }
      CAPTURE(static_cast<int>(kind), index, chunk);
      REQUIRE(given.insert(kind).second);
      REQUIRE(chunk == (IsOfChunk(kind) ? i.chunk : 0));
      REQUIRE(index < programs_[rank].buffers.of(kind, chunk));
      const std::tuple<int, BufferKind, int, int> key(rank, kind, chunk, index);
      if (operand.fills) {
        REQUIRE(Fills(rank, i, kind));
        REQUIRE(held_.emplace(key, Content{i.micro_batch, i.visit, {}}).second);
      }
      const auto held = held_.find(key);
      REQUIRE(held != held_.end());
      REQUIRE(held->second.micro_batch == i.micro_batch);
      REQUIRE(held->second.visit == i.visit);
      if (IsReceive(i.kind)) {
        const int64_t first = FirstByte(rank, i);
        held->second.received.push_back({first, first + i.bytes.value});
      }
      if (IsGather(i.kind)) CheckGathered(rank, i, kind);
      const bool reads_received =
          Travels(kind) && !IsReceive(i.kind) && (DegreeOf(rank) == 1 || UnitOf(rank).sequence_parallel);
      if (reads_received) CheckReceived(held->second.received, OwnBytes(rank, i, kind));
      if (operand.releases) {
        REQUIRE(Releases(rank, i, kind));
        held_.erase(held);
      }
    }
    // It is there where others' pieces come between, which only the compiler knows.
    given.erase(BufferKind::kStreamGradient);
    REQUIRE(given == Needs(rank, i));
    REQUIRE(WindowsOf(i) == WindowNeeds(rank, i));
    if (IsOfSlice(i.kind)) UseHomes(rank, i);
    const std::pair<int, int> place(rank, i.chunk);
    if (i.kind == Kind::kForward && Ends(rank, i))
      peak_stash_[place] = std::max(peak_stash_[place], ++stashed_[place]);
    if (purpose_ == Purpose::kEvaluate ? i.kind == Kind::kForward && Begins(rank, i)
                                       : OfWeights(i) && Ends(rank, i))
      --stashed_[place];
    if (!IsPass(i.kind) || i.kind == Kind::kRecompute) return;
    CHECK(i.blocks.size() > 0);
    // Pieces of one pass follow each other, whatever comes between.
    const std::tuple<int, Kind, int, int> pass(rank, i.kind, i.visit, i.micro_batch.value());
    if (i.kind == Kind::kForward) {
      CHECK(i.blocks.first == (Ends(rank, i) ? ChunkOf(rank, i).first : reached_[pass]));
      reached_[pass] = i.blocks.end;
    } else {
      CHECK(i.blocks.end == (Begins(rank, i) ? ChunkOf(rank, i).end : reached_[pass]));
      reached_[pass] = i.blocks.first;
    }
  }

  // Of what several share in the optimizer's state, the owners alone have the parameters, until these are gathered. The
  // layer of `blocks` that lives in host memory has been updated, or, if there are none, what lives on the device.
  void Updated(int rank, BlockRange blocks) {
    if (!planned_.plan.shards_optimizer) return;
    for (int s = 0; s < static_cast<int>(programs_[rank].slices.size()); ++s) {
      const GradientSlice& slice = programs_[rank].slices[s];
      if (slice.on_peers && UnitOf(rank).parameters_have_windows()) continue;
      if (slice.in_host_memory != (blocks.size() > 0)) continue;
      // Layers are updated in their order.
      if (blocks.size() > 0 && slice.end_segment - 1 != SegmentOfBlock(blocks.first)) continue;
      owners_alone_.insert({rank, s});
    }
  }
  void CheckUpdated(int rank, BlockRange blocks) const {
    for (int s = 0; s < static_cast<int>(programs_[rank].slices.size()); ++s) {
      const GradientSlice& slice = programs_[rank].slices[s];
      if (!owners_alone_.contains({rank, s})) continue;
      for (BlockId block = blocks.first; block < blocks.end; ++block) {
        CHECK_FALSE(slice.Has(SegmentOfBlock(block)));
        const bool at_an_end =
            block == planned_.shape.model.embedding_block() || block == planned_.shape.model.head_block();
        CHECK_FALSE((at_an_end && slice.first_segment == kTiedSegment));
      }
    }
  }

  // A layer's windows: what they have, and how new that is.
  struct Version {
    BlockId layer = -1;
    int version = 0;
  };
  static std::set<BufferKind> WindowsOf(const Instruction& i) {
    std::set<BufferKind> kinds;
    for (const Operand& operand : i.operands) {
      if (operand.buffer.index >= 0 && IsWindow(operand.buffer.kind)) kinds.insert(operand.buffer.kind);
    }
    return kinds;
  }
  std::set<BufferKind> WindowNeeds(int rank, const Instruction& i) const {
    const Unit& unit = UnitOf(rank);
    if (!unit.has_windows() || i.blocks.size() == 0) return {};
    if (i.kind == Kind::kFetch || i.kind == Kind::kStore) return WindowsOf(i);  // one of them
    if (i.kind == Kind::kGatherParameters) return {BufferKind::kParameterWindow};
    if (i.kind == Kind::kScatterGradients) return {BufferKind::kGradientWindow};
    if (!planned_.shape.model.is_layer(i.blocks.first)) return {};
    CHECK(i.blocks.size() == 1);
    if (i.kind == Kind::kZeroGradients || i.kind == Kind::kNormGradients || i.kind == Kind::kJoinGradients)
      return {BufferKind::kGradientWindow};
    if (i.kind == Kind::kUpdateParameters)
      return {BufferKind::kParameterWindow, BufferKind::kGradientWindow, BufferKind::kMomentWindow};
    std::set<BufferKind> needs;
    if (unit.parameters_have_windows()) needs.insert(BufferKind::kParameterWindow);
    if (IsGradient(i.kind)) needs.insert(BufferKind::kGradientWindow);
    return needs;
  }
  // Who uses a window finds its layer there, with all that has been made of it so far; what is new there is brought
  // home before it is overwritten or forgotten.
  void UseWindow(int rank, const Instruction& i, const Operand& operand) {
    const BufferKind kind = operand.buffer.kind;
    const BlockId layer = i.blocks.first;
    CAPTURE(static_cast<int>(kind), layer.value(), operand.buffer.index);
    REQUIRE(i.blocks.size() == 1);
    REQUIRE(operand.buffer.index < programs_[rank].buffers.windows);
    Version& there = windows_[{rank, kind, operand.buffer.index}];
    const std::tuple<int, BufferKind, int> of_layer(rank, kind, layer.value());
    int& home = home_[of_layer];
    int& newest = newest_[of_layer];
    const bool gathers = i.kind == Kind::kGatherParameters;
    if (gathers && !operand.fills) {  // another slice of the layer
      CHECK(there.layer == layer);
      return;
    }
    if (gathers) ++gathered_[{rank, layer.value()}];
    if (i.kind == Kind::kFetch || gathers || i.kind == Kind::kZeroGradients) {
      // What was there is at home, or is of no use any more: gradients that were applied.
      const std::tuple<int, BufferKind, int> old(rank, kind, there.layer.value());
      if (there.layer >= 0 && newest_[old] > home_[old])
        CHECK(applied_.contains({rank, there.layer.value()}));
      if (i.kind == Kind::kFetch) CHECK(home == newest);
      if (i.kind == Kind::kZeroGradients) CHECK(newest == 0);
      there = {layer, newest};
      if (i.kind == Kind::kZeroGradients) there.version = ++newest;
      return;
    }
    REQUIRE(there.layer == layer);
    CHECK(there.version == newest);
    if (i.kind == Kind::kScatterGradients) {  // each slice of the layer; the update comes without windows
      home = newest;
      applied_.insert({rank, layer.value()});
      return;
    }
    if (i.kind == Kind::kStore) {
      CHECK(newest > home);
      home = newest;
      // Gradients that leave before the update to be summed change there.
      return;
    }
    if (operand.writes) there.version = ++newest;
    if (i.kind == Kind::kUpdateParameters && kind == BufferKind::kGradientWindow)
      applied_.insert({rank, layer.value()});
  }
  // What others sum with, or give, is at home, and changes there.
  void UseHomes(int rank, const Instruction& i) {
    const GradientSlice& slice = programs_[rank].slices[i.slice];
    if (!slice.in_host_memory) return;
    const BufferKind kind =
        i.kind == Kind::kGatherParameters ? BufferKind::kParameterWindow : BufferKind::kGradientWindow;
    for (SegmentId segment = slice.first_segment; segment < slice.end_segment; ++segment) {
      const std::tuple<int, BufferKind, int> of_layer(rank, kind, BlockOfSegment(segment).value());
      CHECK(home_[of_layer] == newest_[of_layer]);
      if (i.kind != Kind::kGatherParameters) CHECK(newest_[of_layer] > 0);
      home_[of_layer] = ++newest_[of_layer];
    }
  }
  // All that was made of parameters and moments is at home.
  void CheckHome() const {
    for (const auto& [of_layer, newest] : newest_) {
      CAPTURE(std::get<0>(of_layer), static_cast<int>(std::get<1>(of_layer)), std::get<2>(of_layer));
      const bool applied = applied_.contains({std::get<0>(of_layer), std::get<2>(of_layer)});
      if (purpose_ == Purpose::kTrain) CHECK(applied);
      if (std::get<1>(of_layer) != BufferKind::kGradientWindow) CHECK(home_.at(of_layer) == newest);
    }
  }

  int DegreeOf(int rank) const {
    return static_cast<int>(planned_.plan.units[programs_[rank].unit].devices.size());
  }
  static bool Travels(BufferKind kind) {
    return kind == BufferKind::kInput || kind == BufferKind::kOutputGradient;
  }
  const Unit& UnitOf(int rank) const { return planned_.plan.units[programs_[rank].unit]; }

  // Of what crosses to or from the stage before, or else the next one: as narrow as the narrower end stores
  // it.
  int64_t RowBytes(int rank, const Instruction& i, bool of_previous) const {
    const Visit& at = VisitOf(rank, i);
    const Unit& other = planned_.plan.units[of_previous ? at.previous : at.next];
    const bool narrow = UnitOf(rank).activations != Dtype::kF32 || other.activations != Dtype::kF32;
    return (narrow ? 2 : 4) * int64_t{planned_.shape.model.hidden};
  }
  int64_t RowsOf(int rank, const Instruction& i) const {
    return int64_t{VisitOf(rank, i).micro_batch_sequences} * planned_.shape.sequence;
  }
  // What a message carries first, from the micro-batch's first row on: buffers of a rank in sequence
  // parallelism begin with its own rows.
  int64_t FirstByte(int rank, const Instruction& i) const {
    const bool of_previous = i.kind == Kind::kReceiveActivation || i.kind == Kind::kSendGradient;
    const int64_t held = OwnRows(programs_[rank].buffers, RowsOf(rank, i)).first;
    return held * RowBytes(rank, i, of_previous) + i.offset.value;
  }
  // What a rank has of what travels to it.
  std::pair<int64_t, int64_t> OwnBytes(int rank, const Instruction& i, BufferKind kind) const {
    const RowRange own = OwnRows(programs_[rank].buffers, RowsOf(rank, i));
    const int64_t row = RowBytes(rank, i, kind == BufferKind::kInput);
    return {own.first * row, own.end * row};
  }

  // What was received is every byte of `bytes`, once.
  static void CheckReceived(std::vector<std::pair<int64_t, int64_t>> received,
                            std::pair<int64_t, int64_t> bytes) {
    std::sort(received.begin(), received.end());
    int64_t next = bytes.first;
    for (const auto& [begin, end] : received) {
      CHECK(begin == next);
      next = end;
    }
    CHECK(next == bytes.second);
  }

  // What the ranks of the unit have received is every byte of the micro-batch, once.
  void CheckGathered(int rank, const Instruction& i, BufferKind kind) const {
    std::vector<std::pair<int64_t, int64_t>> received;
    const Rank first = FirstRankOf(planned_.plan, programs_[rank].unit);
    for (const auto& [key, content] : held_) {
      const int r = std::get<0>(key);
      const bool of_unit = r >= first && r < first + DegreeOf(rank);
      if (!of_unit || std::get<1>(key) != kind || content.micro_batch != i.micro_batch ||
          content.visit != i.visit)
        continue;
      received.insert(received.end(), content.received.begin(), content.received.end());
    }
    REQUIRE_FALSE(UnitOf(rank).sequence_parallel);
    CheckReceived(received, OwnBytes(rank, i, kind));
    CHECK(i.bytes.value == OwnBytes(rank, i, kind).second);
  }

  std::vector<BlockId> LayersOfUnit(int rank) const {
    std::vector<BlockId> layers;
    for (const BlockRange& chunk : UnitOf(rank).chunks) {
      for (BlockId block = chunk.first; block < chunk.end; ++block) {
        if (planned_.shape.model.is_layer(block)) layers.push_back(block);
      }
    }
    return layers;
  }

  // Whether some of the unit's last layers, which it makes again, are among `blocks`.
  bool MakesAgain(int rank, const BlockRange& blocks) const {
    const Unit& unit = UnitOf(rank);
    if (unit.recompute == Recompute::kNone) return false;
    const std::vector<BlockId> layers = LayersOfUnit(rank);
    const size_t kept = unit.recomputed_layers == 0 ? 0 : layers.size() - unit.recomputed_layers;
    return std::any_of(layers.begin() + static_cast<std::ptrdiff_t>(kept), layers.end(),
                       [&](BlockId layer) { return blocks.contains(layer); });
  }

  // The blocks of the chunk that have in `kind` what they keep, ascending: in the homed stash the unit's first layers, and
  // what is no layer before them, or all.
  std::vector<BlockId> KeptIn(int rank, const Instruction& i, BufferKind kind) const {
    const Unit& unit = UnitOf(rank);
    const std::vector<BlockId> layers = LayersOfUnit(rank);
    const size_t homed = unit.homed_layers;
    std::vector<BlockId> blocks;
    for (BlockId block = ChunkOf(rank, i).first; block < ChunkOf(rank, i).end; ++block) {
      const bool goes = unit.activations_home == ActivationsHome::kHost &&
                        (homed == 0 || homed == layers.size() || block <= layers[homed - 1]);
      if (goes == (kind == BufferKind::kLeavingStash)) blocks.push_back(block);
    }
    return blocks;
  }
  // Whether a pass of `blocks` needs what `kept` keep: of their own, or of the block before them, whose output is their input.
  static bool UsesKept(BlockRange blocks, const std::vector<BlockId>& kept) {
    return std::any_of(kept.begin(), kept.end(),
                       [&](BlockId block) { return blocks.contains(block) || block + 1 == blocks.first; });
  }
  // A pass of the first block that keeps something in `kind`.
  bool OfFirstKept(int rank, const Instruction& i, BufferKind kind) const {
    const std::vector<BlockId> kept = KeptIn(rank, i, kind);
    return !kept.empty() && i.blocks.contains(kept.front());
  }

  bool Begins(int rank, const Instruction& i) const { return i.blocks.end == ChunkOf(rank, i).end; }
  bool Ends(int rank, const Instruction& i) const { return i.blocks.first == ChunkOf(rank, i).first; }

  static bool OfWeights(const Instruction& i) {
    return i.kind == Kind::kBackward || i.kind == Kind::kWeightGradient;
  }

  // Where a micro-batch's content begins and ends to be needed.
  bool Fills(int rank, const Instruction& i, BufferKind kind) const {
    switch (kind) {
      case BufferKind::kStash:
      case BufferKind::kLeavingStash:
        return (i.kind == Kind::kFetch && kind == BufferKind::kLeavingStash) ||
               (i.kind == Kind::kForward && OfFirstKept(rank, i, kind));
      case BufferKind::kStashHome:
        return i.kind == Kind::kStore;
      case BufferKind::kOutput:
        return i.kind == Kind::kForward && Begins(rank, i);
      case BufferKind::kStreamGradient:
        return i.kind == Kind::kBackward && Begins(rank, i);
      case BufferKind::kParameterWindow:
      case BufferKind::kGradientWindow:
      case BufferKind::kMomentWindow:
        return false;  // UseWindow
      case BufferKind::kDeferred:
        return i.kind == Kind::kInputGradient;
      case BufferKind::kRecomputed:
        return i.kind == Kind::kForward || i.kind == Kind::kRecompute;
      case BufferKind::kInput:
        return i.kind == Kind::kReceiveActivation;
      case BufferKind::kOutputGradient:
        return i.kind == Kind::kReceiveGradient;
      case BufferKind::kInputGradient:
        return (i.kind == Kind::kBackward || i.kind == Kind::kInputGradient) && Begins(rank, i);
    }
    return false;
  }
  bool Releases(int rank, const Instruction& i, BufferKind kind) const {
    switch (kind) {
      case BufferKind::kStash:
      case BufferKind::kLeavingStash: {
        if (i.kind == Kind::kStore) {
          // What has gone home is whole, and no piece of the forward needs it any more.
          const auto reached = reached_.find({rank, Kind::kForward, i.visit, i.micro_batch.value()});
          if (kind != BufferKind::kLeavingStash || reached == reached_.end()) return false;
          const BlockId end = ChunkOf(rank, i).end;
          return reached->second == end || !UsesKept({reached->second, end}, KeptIn(rank, i, kind));
        }
        if (purpose_ == Purpose::kTrain) return OfWeights(i) && OfFirstKept(rank, i, kind);
        // No pass behind it needs that.
        const BlockRange behind = {i.blocks.end, ChunkOf(rank, i).end};
        return i.kind == Kind::kForward && (Begins(rank, i) || !UsesKept(behind, KeptIn(rank, i, kind)));
      }
      case BufferKind::kStashHome:
        return i.kind == Kind::kFetch;
      case BufferKind::kInput:
        return purpose_ == Purpose::kTrain ? OfWeights(i) && Ends(rank, i)
                                           : i.kind == Kind::kForward && Ends(rank, i);
      case BufferKind::kStreamGradient:
        return i.kind == Kind::kBackward && Ends(rank, i);
      case BufferKind::kParameterWindow:
      case BufferKind::kGradientWindow:
      case BufferKind::kMomentWindow:
        return false;
      case BufferKind::kDeferred:
        return i.kind == Kind::kWeightGradient && Ends(rank, i);
      case BufferKind::kRecomputed:
        return i.kind == Kind::kForward || IsGradient(i.kind);
      case BufferKind::kOutput:
        return i.kind == Kind::kSendActivation;
      case BufferKind::kInputGradient:
        return i.kind == Kind::kSendGradient;
      case BufferKind::kOutputGradient:
        return OfWeights(i) && Begins(rank, i);
    }
    return false;
  }

  const PlannedShape& planned_;
  const Purpose purpose_;
  const int steps_;
  uint64_t state_;
  // By rank, kind of pass, visit and micro-batch: how far it has gone.
  std::map<std::tuple<int, Kind, int, int>, BlockId> reached_;
  std::map<std::tuple<int, BufferKind, int>, Version> windows_;    // by rank, kind, window
  std::map<std::tuple<int, BufferKind, int>, int> home_, newest_;  // versions, by rank, kind, layer
  std::map<std::pair<int, int>, int> gathered_;                    // by rank and layer
  std::set<std::pair<int, int>> applied_;       // by rank and layer: gradients that the optimizer has used
  std::set<std::pair<int, int>> owners_alone_;  // by rank and slice: whose holders lack what was updated
  std::vector<StepProgram> programs_;
  std::vector<std::vector<bool>> done_;
  std::map<std::tuple<int, BufferKind, int, int>, Content> held_;  // by rank, kind, chunk, index
  std::map<std::pair<int, int>, int> stashed_, peak_stash_;
};

}  // namespace medley
