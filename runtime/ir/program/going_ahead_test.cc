#include "runtime/ir/program/going_ahead.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "absl/strings/str_cat.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program_machine.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

using Kind = InstructionKind;

PlannedShape RandomPlanAhead(uint64_t seed) {
  PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
  planned.plan.post_validation = true;
  if (seed % 3 == 0) {
    for (size_t u = 0; u < planned.plan.units.size(); ++u)
      planned.plan.units[u].forwards_ahead = static_cast<int>((seed / 3 + u) % 4);
  }
  return planned;
}

int Forwards(const StepProgram& program, bool next_step) {
  return static_cast<int>(std::count_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& i) { return i.kind == Kind::kForward && i.next_step == next_step; }));
}

TEST_CASE("steps in a row that go ahead of norms end, in any order, and no buffer is overwritten in use",
          "[property]") {
  int forwards_ahead = 0, ranks_without = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlannedShape planned = RandomPlanAhead(seed);
    CAPTURE(seed, Describe(planned.plan));
    ProgramMachine machine(planned, Purpose::kTrain, seed, 4);
    REQUIRE(machine.Run());
    for (const StepProgram& program : machine.programs()) {
      const int ahead = GoingAhead(planned.plan).ForwardsOf(program.unit);
      forwards_ahead += ahead;
      ranks_without += ahead == 0;
    }
  }
  CHECK(forwards_ahead > 300);
  CHECK(ranks_without > 0);
}

TEST_CASE("programs of a step with other ends make the same, in the same buffers", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlannedShape planned = RandomPlanAhead(seed);
    CAPTURE(seed, Describe(planned.plan));
    const GoingAhead going(planned.plan);
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const auto compile = [&](bool begins, bool goes) {
        return CompileStep(planned.plan, rank, planned.shape, Purpose::kTrain,
                           {.begins_ahead = begins, .goes_ahead = goes});
      };
      const StepProgram whole = compile(false, false), between = compile(true, true);
      const int ahead = going.ForwardsOf(whole.unit), all = Forwards(whole, false);
      CHECK(whole.buffers.goes_ahead == (ahead > 0));
      CHECK(Forwards(between, false) == all - ahead);
      CHECK(Forwards(between, true) == ahead);
      CHECK(Forwards(compile(true, false), false) == all - ahead);
      CHECK(Forwards(compile(false, true), true) == ahead);
      CHECK(between.instructions.size() == whole.instructions.size() + (ahead > 0 ? 1 : 0));
      for (const StepProgram& other : {between, compile(true, false), compile(false, true)}) {
        const BufferCounts &a = whole.buffers, &b = other.buffers;
        CHECK((a.stash == b.stash && a.input == b.input && a.output == b.output));
        CHECK(MemoryOfProgram(planned.plan, other, planned.shape).total() ==
              MemoryOfProgram(planned.plan, whole, planned.shape).total());
      }
      // The update is last, and what is made ahead follows the norm.
      CHECK(between.instructions.back().kind == Kind::kUpdateParameters);
      bool normed = false;
      for (const Instruction& i : between.instructions) {
        normed = normed || i.kind == Kind::kNormGradients;
        if (i.next_step || i.kind == Kind::kAdvanceParameters) CHECK(normed);
        if (i.next_step) CHECK_FALSE(IsGradient(i.kind));
      }
    }
  }
}

TEST_CASE("what a unit sends ahead the next one takes in ahead", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlannedShape planned = RandomPlanAhead(seed);
    CAPTURE(seed, Describe(planned.plan));
    std::map<std::pair<int, int>, int> sent, received;  // bytes, by boundary and micro-batch
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      for (const Instruction& i :
           CompileStep(planned.plan, rank, planned.shape, Purpose::kTrain).instructions) {
        if (!i.next_step) continue;
        const std::pair<int, int> key(i.boundary.value(), i.micro_batch.value());
        if (i.kind == Kind::kSendActivation) sent[key] += static_cast<int>(i.bytes.value);
        if (i.kind == Kind::kReceiveActivation) received[key] += static_cast<int>(i.bytes.value);
      }
    }
    CHECK(sent == received);
  }
}

TEST_CASE("of four stages under 1F1B each begins the next step with its warm-up and one more") {
  PlannedShape planned{
      .shape = {.model = {.layers = 6, .hidden = 32, .heads = 2, .vocabulary = 64, .context = 16},
                .sequence = 16,
                .global_batch_sequences = 8}};
  planned.plan.post_validation = true;
  for (int u = 0; u < 4; ++u) {
    planned.plan.units.push_back({.devices = {absl::StrCat("n/", u)}, .chunks = {{2 * u, 2 * u + 2}}});
  }
  planned.plan.routes = {{.units = {0, 1, 2, 3}, .micro_batches = 8, .micro_batch_sequences = 1}};
  const GoingAhead going(planned.plan);
  for (int u = 0; u < 4; ++u) CHECK(going.ForwardsOf(u) == 4 - u);
  CHECK(GoingAhead(planned.plan, Purpose::kEvaluate).ForwardsOf(0) == 0);
  planned.plan.units[1].forwards_ahead = 2;
  for (int u = 0; u < 4; ++u)
    CHECK(GoingAhead(planned.plan).ForwardsOf(u) == std::min(4 - u, u == 0 ? 4 : 2));
  planned.plan.post_validation = false;
  CHECK(GoingAhead(planned.plan).ForwardsOf(0) == 0);
}

}  // namespace
}  // namespace medley
