#include "coordinator/wire/predicted_step_codec.h"

#include <catch2/catch.hpp>

#include "coordinator/problem/alike_nodes.h"
#include "coordinator/problem/predicted_lanes.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

TEST_CASE("a predicted step has every instruction at its predicted time, and the memory in use") {
  const TrainingShape shape = SmallJob().shape;
  const absl::StatusOr<PlannedJob> planned =
      PlanJob(SmallJob(), Replicas({3, 3, 2}), AlikeNodes(2), Comparison::kNone);
  REQUIRE(planned.status().ToString() == "OK");
  const v1::PredictedStep step = EncodePredictedStep(*planned, shape);
  REQUIRE(step.lanes_size() == 2);
  CHECK(step.lanes(0).kind() == "alike");
  REQUIRE(step.lanes(0).devices_size() == 2);
  CHECK(step.lanes(0).devices(1).device() == "a1/cpu0");
  CHECK(step.lanes(0).devices(1).first_micro_batch() == 3);
  CHECK(step.lanes(1).devices(0).device() == "z/cpu0");
  CHECK(step.lanes(1).devices(0).first_micro_batch() == 6);
  for (int l = 0; l < 2; ++l) {
    const v1::PredictedLane& lane = step.lanes(l);
    const Rank rank = l == 0 ? 0 : 2;
    const int first_micro_batch = l == 0 ? 0 : 6;
    const StepProgram program = CompileStep(planned->plan, rank, shape, Purpose::kTrain);
    const std::vector<InstructionTime>& times = planned->prediction.ranks[rank].timeline;
    REQUIRE(lane.instructions_size() == static_cast<int>(program.instructions.size()));
    for (int i = 0; i < lane.instructions_size(); ++i) {
      const v1::PredictedInstruction& encoded = lane.instructions(i);
      const Instruction& instruction = program.instructions[i];
      CHECK(encoded.kind() == NameOf(instruction));
      CHECK(encoded.stream() == static_cast<uint32_t>(instruction.stream));
      CHECK(encoded.micro_batch() ==
            (instruction.micro_batch < 0 ? -1 : instruction.micro_batch.value() - first_micro_batch));
      CHECK(encoded.bytes() == static_cast<uint64_t>(instruction.bytes.value));
      CHECK(encoded.start_seconds() == times[i].start_seconds);
      CHECK(encoded.end_seconds() == times[i].end_seconds);
      CHECK(encoded.has_blocks() == (instruction.blocks.size() > 0));
      CHECK(encoded.instruction_class() != v1::INSTRUCTION_CLASS_UNSPECIFIED);
    }
    CHECK(lane.instructions(0).instruction_class() == v1::INSTRUCTION_CLASS_FORWARD);
    CHECK(lane.instructions(0).blocks().end() == 4);
    const std::vector<MemoryUse> uses = PredictedLanesOf(*planned, shape)[l].memory;
    REQUIRE(lane.memory_size() == static_cast<int>(uses.size()));
    for (int i = 0; i < lane.memory_size(); ++i) {
      CHECK(lane.memory(i).from_seconds() == uses[i].from_seconds);
      CHECK(lane.memory(i).activation_bytes() == static_cast<uint64_t>(uses[i].activations.value));
      CHECK(lane.memory(i).boundary_bytes() == static_cast<uint64_t>(uses[i].boundaries.value));
    }
  }
}

}  // namespace
}  // namespace medley
