#include "runtime/program/program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "runtime/model/parameters.h"
#include "runtime/program/random_plan.h"

namespace medley {
namespace {

using Kind = InstructionKind;

bool IsSend(Kind kind) { return kind == Kind::kSendActivation || kind == Kind::kSendGradient; }

// Runs the programs of all units together, one instruction after another in a random order that the programs allow.
// A message takes both ends at once, a reduction all holders. Watches the buffers: a buffer must be free when it is
// filled and hold the right micro-batch when it is read.
class Machine {
 public:
  Machine(const PlannedShape& planned, Purpose purpose, uint64_t seed) : purpose_(purpose), state_(seed) {
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      programs_.push_back(CompileStep(planned.plan, u, planned.shape, purpose));
      blocks_.push_back(planned.plan.units[u].blocks);
      done_.emplace_back(programs_.back().instructions.size(), false);
      first_.push_back(planned.plan.units[u].blocks.first == 0);
    }
  }

  // Whether every instruction was executed.
  bool Run() {
    while (true) {
      std::vector<std::vector<std::pair<int, int>>> choices;
      for (int u = 0; u < static_cast<int>(programs_.size()); ++u) {
        for (const int i : Heads(u)) {
          auto together = WithItsOtherEnds(u, i);
          if (!together.empty() && together.front() == std::pair(u, i)) choices.push_back(std::move(together));
        }
      }
      if (choices.empty()) break;
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      const auto& chosen = choices[(state_ >> 33) % choices.size()];
      for (const auto& [u, i] : chosen) Execute(u, programs_[u].instructions[i]);
      for (const auto& [u, i] : chosen) done_[u][i] = true;
    }
    for (const auto& done : done_) {
      if (std::find(done.begin(), done.end(), false) != done.end()) return false;
    }
    CHECK(held_.empty());
    return true;
  }

  int peak_stash(int unit) const { return peak_stash_.count(unit) ? peak_stash_.at(unit) : 0; }
  const std::vector<StepProgram>& programs() const { return programs_; }

 private:
  // The next instruction of each stream whose waits are over.
  std::vector<int> Heads(int unit) const {
    std::vector<int> heads;
    std::set<Stream> seen;
    const auto& instructions = programs_[unit].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (done_[unit][i] || !seen.insert(instructions[i].stream).second) continue;
      const auto& waits = instructions[i].waits_for;
      if (std::all_of(waits.begin(), waits.end(), [&](int w) { return w < 0 || done_[unit][w]; })) heads.push_back(i);
    }
    return heads;
  }

  int HeadLike(int unit, const auto& matches) const {
    for (const int i : Heads(unit)) {
      if (matches(programs_[unit].instructions[i])) return i;
    }
    return -1;
  }

  // All (unit, instruction) that happen at once with this one, itself included, ascending; empty if not all are ready.
  std::vector<std::pair<int, int>> WithItsOtherEnds(int unit, int index) const {
    const Instruction& one = programs_[unit].instructions[index];
    std::vector<std::pair<int, int>> together;
    const auto add = [&](int u, int i) {
      if (i >= 0) together.push_back({u, i});
      return i >= 0;
    };
    if (IsSend(one.kind) || IsReceive(one.kind)) {
      const Kind other = one.kind == Kind::kSendActivation      ? Kind::kReceiveActivation
                         : one.kind == Kind::kReceiveActivation ? Kind::kSendActivation
                         : one.kind == Kind::kSendGradient      ? Kind::kReceiveGradient
                                                                : Kind::kSendGradient;
      add(unit, index);
      const int peer = HeadLike(one.peer, [&](const Instruction& i) {
        return i.kind == other && i.peer == unit && i.micro_batch == one.micro_batch && i.bytes == one.bytes;
      });
      if (!add(one.peer, peer)) return {};
    } else if (one.kind == Kind::kReduceGradients) {
      const GradientSlice& slice = programs_[unit].slices[one.slice];
      for (const int holder : slice.holders) {
        const int i = HeadLike(holder, [&](const Instruction& other) {
          if (other.kind != Kind::kReduceGradients) return false;
          const GradientSlice& same = programs_[holder].slices[other.slice];
          return same.first_segment == slice.first_segment && same.end_segment == slice.end_segment &&
                 same.elements == slice.elements && same.holders == slice.holders;
        });
        if (!add(holder, i)) return {};
      }
    } else if (one.kind == Kind::kReduceScalars) {
      for (int u = 0; u < static_cast<int>(programs_.size()); ++u) {
        if (!add(u, HeadLike(u, [](const Instruction& i) { return i.kind == Kind::kReduceScalars; }))) return {};
      }
    } else {
      add(unit, index);
    }
    std::sort(together.begin(), together.end());
    return together;
  }

  // What an instruction needs by its kind and place, told apart from what the compiler gave it.
  std::set<BufferKind> Needs(int unit, const Instruction& i) const {
    const Position& at = programs_[unit].position;
    const bool first = at.stage == 0, last = at.stage == at.stages - 1;
    std::set<BufferKind> needs;
    switch (i.kind) {
      case Kind::kReceiveActivation: return {BufferKind::kInput};
      case Kind::kSendActivation: return {BufferKind::kOutput};
      case Kind::kReceiveGradient: return {BufferKind::kOutputGradient};
      case Kind::kSendGradient: return {BufferKind::kInputGradient};
      case Kind::kForward:
        needs = {BufferKind::kStash};
        if (!first) needs.insert(BufferKind::kInput);
        if (!last) needs.insert(BufferKind::kOutput);
        return needs;
      case Kind::kBackward:
        needs = {BufferKind::kStash};
        if (!first) needs.insert({BufferKind::kInput, BufferKind::kInputGradient});
        if (!last && i.blocks.end == blocks_[unit].end) needs.insert(BufferKind::kOutputGradient);
        return needs;
      default: return {};
    }
  }

  // Who writes first into a buffer finds it empty, who reads finds its micro-batch, who is last leaves it empty.
  void Execute(int unit, const Instruction& i) {
    CAPTURE(unit, NameOf(i.kind), i.micro_batch, i.blocks.first, i.blocks.end);
    std::set<BufferKind> given;
    for (const Operand& operand : i.operands) {
      const auto& [kind, index] = operand.buffer;
      if (index < 0) continue;
      CAPTURE(static_cast<int>(kind), index);
      REQUIRE(given.insert(kind).second);
      REQUIRE(index < programs_[unit].buffers.of(kind));
      const std::tuple<int, BufferKind, int> key(unit, kind, index);
      if (operand.fills) {
        REQUIRE(Fills(unit, i, kind));
        REQUIRE(held_.emplace(key, i.micro_batch).second);
      }
      const auto held = held_.find(key);
      REQUIRE(held != held_.end());
      REQUIRE(held->second == i.micro_batch);
      if (operand.releases) {
        REQUIRE(Releases(unit, i, kind));
        held_.erase(held);
      }
    }
    REQUIRE(given == Needs(unit, i));
    if (i.kind == Kind::kForward) peak_stash_[unit] = std::max(peak_stash_[unit], ++stashed_[unit]);
    const bool is_last_pass =
        purpose_ == Purpose::kEvaluate ? i.kind == Kind::kForward
                                       : i.kind == Kind::kBackward && i.blocks.first == blocks_[unit].first;
    if (is_last_pass) --stashed_[unit];
    if (i.kind != Kind::kBackward) return;
    CHECK(i.blocks.size() > 0);
    CHECK(i.blocks.end == (Begins(unit, i) ? blocks_[unit].end : reached_[unit]));
    reached_[unit] = i.blocks.first;
  }

  bool Begins(int unit, const Instruction& i) const { return i.blocks.end == blocks_[unit].end; }
  bool Ends(int unit, const Instruction& i) const { return i.blocks.first == blocks_[unit].first; }

  // Where a micro-batch's content begins and ends to be needed.
  bool Fills(int unit, const Instruction& i, BufferKind kind) const {
    switch (kind) {
      case BufferKind::kStash:
      case BufferKind::kOutput: return i.kind == Kind::kForward;
      case BufferKind::kInput: return i.kind == Kind::kReceiveActivation;
      case BufferKind::kOutputGradient: return i.kind == Kind::kReceiveGradient;
      case BufferKind::kInputGradient: return i.kind == Kind::kBackward && Begins(unit, i);
    }
    return false;
  }
  bool Releases(int unit, const Instruction& i, BufferKind kind) const {
    switch (kind) {
      case BufferKind::kStash:
      case BufferKind::kInput:
        return purpose_ == Purpose::kTrain ? i.kind == Kind::kBackward && Ends(unit, i) : i.kind == Kind::kForward;
      case BufferKind::kOutput: return i.kind == Kind::kSendActivation;
      case BufferKind::kInputGradient: return i.kind == Kind::kSendGradient;
      case BufferKind::kOutputGradient: return i.kind == Kind::kBackward && Begins(unit, i);
    }
    return false;
  }

  const Purpose purpose_;
  uint64_t state_;
  std::vector<BlockRange> blocks_;  // of each unit
  std::map<int, int> reached_;      // first block of a unit's latest backward
  std::vector<StepProgram> programs_;
  std::vector<std::vector<bool>> done_;
  std::vector<bool> first_;
  std::map<std::tuple<int, BufferKind, int>, int> held_;  // micro-batch in a unit's buffer
  std::map<int, int> stashed_, peak_stash_;
};

TEST_CASE("the programs of all units end, in any order, and no buffer is overwritten in use", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
      CAPTURE(static_cast<int>(purpose), Describe(planned.plan));
      Machine machine(planned, purpose, seed);
      REQUIRE(machine.Run());
      if (purpose != Purpose::kTrain) continue;
      for (const StepProgram& program : machine.programs()) {
        const Position& at = program.position;
        const int alive = planned.plan.schedule == Schedule::kGPipe
                              ? at.micro_batches
                              : std::min(at.stages - at.stage, at.micro_batches);
        CHECK(program.buffers.stash == alive);
        // One more than are in use, so that the next can arrive; no more than there are micro-batches.
        const int two = std::min(2, at.micro_batches), more = std::min(alive + 1, at.micro_batches);
        const bool first = at.stage == 0, last = at.stage == at.stages - 1;
        CHECK(program.buffers.input == (first ? 0 : more));
        CHECK(program.buffers.output == (last ? 0 : two));
        CHECK(program.buffers.input_gradient == (first ? 0 : two));
        CHECK(program.buffers.output_gradient == (last ? 0 : two));
        CHECK(machine.peak_stash(program.unit) == alive);
      }
    }
  }
}

TEST_CASE("every micro-batch of a route passes each of its units once", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    std::set<int> micro_batches;
    std::vector<bool> sequences(planned.shape.global_batch_sequences, false);
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      CAPTURE(u);
      const StepProgram program = CompileStep(planned.plan, u, planned.shape, Purpose::kTrain);
      std::map<std::pair<Kind, int>, int> count;
      for (const Instruction& i : program.instructions) {
        const bool more_follow = i.kind == Kind::kBackward && i.blocks.first > planned.plan.units[u].blocks.first;
        if (i.micro_batch >= 0 && !more_follow) ++count[{i.kind, i.micro_batch}];
      }
      const Position& at = program.position;
      const size_t kinds = 2 + (at.stage > 0 ? 2 : 0) + (at.stage + 1 < at.stages ? 2 : 0);
      CHECK(count.size() == kinds * at.micro_batches);
      for (const auto& [key, times] : count) {
        CHECK(times == 1);
        CHECK(key.second >= at.first_micro_batch);
        CHECK(key.second < at.first_micro_batch + at.micro_batches);
        micro_batches.insert(key.second);
      }
      for (int i = 0; i < at.micro_batches * at.micro_batch_sequences; ++i) sequences.at(at.first_sequence + i) = true;
    }
    int taken = 0;
    for (const Route& route : planned.plan.routes) taken += route.micro_batches;
    CHECK(static_cast<int>(micro_batches.size()) == taken);
    CHECK(std::find(sequences.begin(), sequences.end(), false) == sequences.end());
  }
}

TEST_CASE("a bucket is summed behind the piece of the last backward that completes it, others go on", "[property]") {
  int overlapped = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      const StepProgram program = CompileStep(planned.plan, u, planned.shape, Purpose::kTrain);
      int last_backward = -1;
      for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
        if (program.instructions[i].kind == Kind::kBackward) last_backward = i;
      }
      for (const Instruction& reduce : program.instructions) {
        if (reduce.kind != Kind::kReduceGradients) continue;
        const Instruction& piece = program.instructions[reduce.waits_for[0]];
        const GradientSlice& slice = program.slices[reduce.slice];
        REQUIRE(piece.kind == Kind::kBackward);
        CHECK(piece.micro_batch == program.position.first_micro_batch + program.position.micro_batches - 1);
        CHECK(piece.blocks.first <= slice.completed_by);
        for (int segment = std::max(1, slice.first_segment); segment < slice.end_segment; ++segment) {
          CHECK(piece.blocks.first <= segment - 1);
        }
        overlapped += reduce.waits_for[0] != last_backward;
      }
    }
  }
  CHECK(overlapped > 100);
}

TEST_CASE("buckets cover their segments once, from the last to the first, and are large enough", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const ModelConfig model = RandomPlan(seed).shape.model;
    const int64_t enough = std::min<int64_t>(4 << 20, ModelElements(model) / 8);
    int end = SegmentCount(model);
    for (const auto& [first_segment, end_segment] : CutIntoBuckets(model, 0, SegmentCount(model))) {
      CHECK(end_segment <= end);
      for (int empty = end_segment; empty < end; ++empty) CHECK(SegmentElements(model, empty) == 0);
      int64_t elements = 0;
      for (int segment = first_segment; segment < end_segment; ++segment) elements += SegmentElements(model, segment);
      CHECK((elements >= enough || first_segment == 0));
      end = first_segment;
    }
    for (int empty = 0; empty < end; ++empty) CHECK(SegmentElements(model, empty) == 0);
  }
}

TEST_CASE("evaluation has forwards and the scalars, and nothing that trains") {
  const PlannedShape planned = RandomPlan(17);
  for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
    const StepProgram program = CompileStep(planned.plan, u, planned.shape, Purpose::kEvaluate);
    const int forwards = static_cast<int>(
        std::count_if(program.instructions.begin(), program.instructions.end(),
                      [](const Instruction& i) { return i.kind == Kind::kForward; }));
    CHECK(forwards == program.position.micro_batches);
    for (const Instruction& i : program.instructions) {
      CHECK((i.kind == Kind::kForward || i.kind == Kind::kSendActivation || i.kind == Kind::kReceiveActivation ||
             i.kind == Kind::kReduceScalars));
    }
    CHECK(program.instructions.back().kind == Kind::kReduceScalars);
  }
}

TEST_CASE("every segment is saved by one of its holders", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    const ModelConfig& model = planned.shape.model;
    std::vector<int> writers(SegmentCount(model), 0);
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      for (const int segment : SavedSegments(planned.plan, u, model)) {
        ++writers[segment];
        const std::vector<int> holders = HoldersOf(planned.plan, model, segment);
        CHECK(std::find(holders.begin(), holders.end(), u) != holders.end());
      }
    }
    CHECK(writers == std::vector<int>(SegmentCount(model), 1));
  }
}

TEST_CASE("units that hold the same write about equal shares of a checkpoint") {
  const ModelConfig model = {.layers = 12, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 50, .context = 16};
  Plan plan;
  for (int u = 0; u < 4; ++u) {
    plan.units.push_back({.device = "test/" + std::to_string(u), .blocks = {0, model.blocks()}});
    plan.routes.push_back({.units = {u}, .micro_batches = 1, .micro_batch_sequences = 1});
  }
  for (int u = 0; u < 4; ++u) {
    CAPTURE(u);
    int64_t elements = 0;
    for (const int segment : SavedSegments(plan, u, model)) elements += SegmentElements(model, segment);
    CHECK(elements <= ModelElements(model) / 4 + SegmentElements(model, SegmentOfBlock(1)));
    CHECK(elements >= ModelElements(model) / 4 - SegmentElements(model, SegmentOfBlock(1)));
  }
}

TEST_CASE("every parameter held by several units is summed once, and one unit answers for its norm", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    const ModelConfig& model = planned.shape.model;
    std::vector<int> owners(SegmentCount(model), 0);
    for (int u = 0; u < static_cast<int>(planned.plan.units.size()); ++u) {
      std::map<int, int> reduced;
      for (const GradientSlice& slice : SlicesOf(planned.plan, u, model)) {
        CHECK(std::find(slice.holders.begin(), slice.holders.end(), u) != slice.holders.end());
        int64_t elements = 0;
        for (int segment = slice.first_segment; segment < slice.end_segment; ++segment) {
          if (SegmentElements(model, segment) == 0) continue;
          ++reduced[segment];
          elements += SegmentElements(model, segment);
          CHECK(slice.holders == HoldersOf(planned.plan, model, segment));
        }
        CHECK(slice.elements == elements);
      }
      for (const int segment : SegmentsOf(model, planned.plan.units[u].blocks)) {
        const bool shared = SegmentElements(model, segment) > 0 && HoldersOf(planned.plan, model, segment).size() > 1;
        CHECK(reduced[segment] == (shared ? 1 : 0));
      }
      for (const int segment : OwnedSegments(planned.plan, u, model)) ++owners[segment];
    }
    CHECK(owners == std::vector<int>(SegmentCount(model), 1));
  }
}

}  // namespace
}  // namespace medley
