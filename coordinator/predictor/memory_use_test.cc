#include "coordinator/predictor/memory_use.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

// One instruction a second, in the order of the list, in which a program can run.
std::vector<InstructionTime> OneAfterAnother(const StepProgram& program) {
  std::vector<InstructionTime> times;
  for (size_t i = 0; i < program.instructions.size(); ++i)
    times.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
  return times;
}

TEST_CASE("no more is in use than is reserved, and nothing at the end") {
  const auto seed = GENERATE(range(uint64_t{1}, uint64_t{121}));
  CAPTURE(seed);
  auto [shape, plan] = seed % 2 == 0 ? RandomWidePlan(seed) : RandomPlan(seed);
  if (seed % 3 == 0) MoveLayersToHost(plan, shape.model, seed);
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const StepProgram program = CompileStep(plan, rank, shape, Purpose::kTrain);
    const RankMemory memory = MemoryOfProgram(plan, program, shape);
    const std::vector<MemoryUse> uses = MemoryUseOf(plan, program, OneAfterAnother(program), shape);
    REQUIRE(uses.front().from_seconds == 0);
    Bytes most_activations;
    for (size_t i = 0; i < uses.size(); ++i) {
      CHECK(uses[i].activations >= Bytes{0});
      CHECK(uses[i].boundaries >= Bytes{0});
      CHECK(uses[i].activations <= memory.activations);
      CHECK(uses[i].boundaries <= memory.boundaries);
      most_activations = std::max(most_activations, uses[i].activations);
      if (i == 0) continue;
      CHECK(uses[i].from_seconds > uses[i - 1].from_seconds);
      CHECK((uses[i].activations != uses[i - 1].activations || uses[i].boundaries != uses[i - 1].boundaries));
    }
    CHECK(most_activations > Bytes{0});
    CHECK(uses.back().activations == Bytes{0});
    CHECK(uses.back().boundaries == Bytes{0});
  }
}

TEST_CASE("a step that goes ahead of norms begins and ends with what was made ahead") {
  Bytes most_ahead;
  for (uint64_t seed = 1; seed < 60; ++seed) {
    CAPTURE(seed);
    auto [shape, plan] = seed % 2 == 0 ? RandomWidePlan(seed) : RandomPlan(seed);
    plan.post_validation = true;
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const StepProgram program = CompileStep(plan, rank, shape, Purpose::kTrain);
      const RankMemory memory = MemoryOfProgram(plan, program, shape);
      const std::vector<MemoryUse> uses = MemoryUseOf(plan, program, OneAfterAnother(program), shape);
      for (const MemoryUse& use : uses) {
        CHECK((use.activations >= Bytes{0} && use.activations <= memory.activations));
        CHECK((use.boundaries >= Bytes{0} && use.boundaries <= memory.boundaries));
      }
      most_ahead = std::max(most_ahead, uses.back().activations);
      if (!program.buffers.goes_ahead) CHECK(uses.back().activations == Bytes{0});
    }
  }
  CHECK(most_ahead > Bytes{0});
}

TEST_CASE("activations are in use from the start of a forward to the end of its backward") {
  const TrainingShape shape = {
      .model = {.layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8},
      .sequence = 4,
      .global_batch_sequences = 2};
  Plan plan = {.schedule = Schedule::kGPipe};
  plan.units = {{.devices = {"d"}, .chunks = {{0, 4}}}};
  plan.routes = {{.units = {0}, .micro_batches = 2, .micro_batch_sequences = 1}};
  const StepProgram program = CompileStep(plan, 0, shape, Purpose::kTrain);
  REQUIRE(program.instructions[0].kind == InstructionKind::kForward);
  REQUIRE(program.instructions[1].kind == InstructionKind::kForward);
  REQUIRE(program.instructions[2].kind == InstructionKind::kBackward);
  const Bytes stash = BufferBytes(plan, program, shape, {.kind = BufferKind::kStash});
  CHECK(MemoryOfProgram(plan, program, shape).activations == 2 * stash);
  const std::vector<MemoryUse> uses = MemoryUseOf(plan, program, OneAfterAnother(program), shape);
  REQUIRE(uses.size() == 4);
  CHECK((uses[0].from_seconds == 0 && uses[0].activations == stash));
  CHECK((uses[1].from_seconds == 1 && uses[1].activations == 2 * stash));
  CHECK((uses[2].from_seconds > 2 && uses[2].activations == stash));
  CHECK((uses[3].from_seconds > uses[2].from_seconds && uses[3].activations == Bytes{0}));
}

}  // namespace
}  // namespace medley
