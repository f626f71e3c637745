#include "runtime/ir/program/assign_buffers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace medley {
namespace {

// `count` micro-batches' inputs, each received, read `reads` times and then done with, in a random order of
// all.
std::vector<Instruction> RandomUses(std::mt19937_64& random, int count, int reads) {
  std::vector<int> uses(count, 0);
  std::vector<Instruction> instructions;
  int begun = 0;
  for (int left = count * (reads + 1); left > 0; --left) {
    std::vector<int> ready;  // contents that may be used next
    for (int c = 0; c < begun; ++c) {
      if (uses[c] <= reads) ready.push_back(c);
    }
    if (begun < count) ready.push_back(begun);
    const int c = ready[random() % ready.size()];
    if (c == begun) ++begun;
    const bool fills = uses[c] == 0, releases = uses[c] == reads;
    Instruction& use = instructions.emplace_back();
    use.kind = fills ? InstructionKind::kReceiveActivation : InstructionKind::kForward;
    use.stream = fills                           ? Stream::kReceiveActivation
                 : random() % 2 == 0 || releases ? Stream::kCompute
                                                 : Stream::kSendActivation;
    use.micro_batch = c;
    use.operands[0] = {
        .buffer = {BufferKind::kInput, c}, .fills = fills, .writes = random() % 3 == 0, .releases = releases};
    ++uses[c];
  }
  return instructions;
}

TEST_CASE(
    "whatever the order, and however streams run beside each other, each content is where it is looked for",
    "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<Instruction> instructions =
      RandomUses(random, static_cast<int>(1 + random() % 12), static_cast<int>(1 + random() % 4));
  const std::vector<Instruction> before = instructions;
  const BufferCounts counts = AssignBuffers(instructions);
  int alive = 0, most_alive = 0;
  for (const Instruction& use : before) {
    alive += use.operands[0].fills;
    most_alive = std::max(most_alive, alive);
    alive -= use.operands[0].releases;
  }
  CHECK(counts.input >= most_alive);
  CHECK(counts.input <= most_alive + 1);  // one more travels
  CHECK(counts.of(BufferKind::kStash) == 0);

  std::vector<bool> done(instructions.size(), false);
  std::map<int, int> held;  // content by buffer
  for (size_t ended = 0; ended < instructions.size(); ++ended) {
    std::vector<size_t> ready;
    uint32_t streams = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const uint32_t stream = 1u << static_cast<int>(instructions[i].stream);
      if (done[i] || (streams & stream) != 0) continue;
      streams |= stream;
      const auto& waits = instructions[i].waits_for;
      if (std::all_of(waits.begin(), waits.end(), [&](int w) { return w < 0 || done[w]; }))
        ready.push_back(i);
    }
    REQUIRE(!ready.empty());
    const size_t i = ready[random() % ready.size()];
    const Operand& operand = instructions[i].operands[0];
    CAPTURE(i, operand.buffer.index);
    if (operand.fills) REQUIRE(held.emplace(operand.buffer.index, instructions[i].micro_batch).second);
    REQUIRE(held.count(operand.buffer.index) == 1);
    REQUIRE(held[operand.buffer.index] == instructions[i].micro_batch);
    if (operand.releases) held.erase(operand.buffer.index);
    done[i] = true;
  }
}

TEST_CASE("what a store has released is not filled next, but then, behind the store") {
  std::vector<Instruction> instructions;
  for (int content = 0; content < 3; ++content) {
    instructions.push_back({.kind = InstructionKind::kForward, .stream = Stream::kCompute});
    instructions.back().operands[0] = {.buffer = {BufferKind::kStash, content}, .fills = true};
    instructions.push_back({.kind = InstructionKind::kStore, .stream = Stream::kStore});
    instructions.back().operands[0] = {.buffer = {BufferKind::kStash, content}, .releases = true};
  }
  CHECK(AssignBuffers(instructions).stash[0] == 2);
  CHECK(instructions[2].operands[0].buffer.index != instructions[0].operands[0].buffer.index);
  CHECK(instructions[2].waits_for[0] == -1);
  CHECK(instructions[4].operands[0].buffer.index == instructions[0].operands[0].buffer.index);
  CHECK(instructions[4].waits_for[0] == 1);
}

TEST_CASE("what an instruction waits for already through its own stream is not said again") {
  std::vector<Instruction> instructions(3);
  instructions[0] = {.kind = InstructionKind::kReceiveActivation, .stream = Stream::kReceiveActivation};
  instructions[1] = {.kind = InstructionKind::kForward, .stream = Stream::kCompute};
  instructions[2] = {.kind = InstructionKind::kBackward, .stream = Stream::kCompute};
  for (int i = 0; i < 3; ++i)
    instructions[i].operands[0] = {.buffer = {BufferKind::kInput, 0}, .fills = i == 0, .releases = i == 2};
  CHECK(AssignBuffers(instructions).input == 1);
  CHECK(instructions[1].waits_for[0] == 0);
  CHECK(instructions[2].waits_for[0] == -1);
}

}  // namespace
}  // namespace medley
