#include "runtime/engine/exec/device_order.h"

#include <catch2/catch.hpp>

#include "kernels/reference/reference_backend.h"

namespace medley {
namespace {

Device TestDevice() {
  absl::StatusOr<Device> device =
      ReferenceBackend().open({.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(1)});
  REQUIRE(device.ok());
  return std::move(*device);
}

Instruction Make(InstructionKind kind, Stream stream, std::initializer_list<int> waits_for) {
  Instruction instruction{.kind = kind, .stream = stream};
  for (const int other : waits_for) instruction.WaitFor(other);
  return instruction;
}

Instruction FetchOf(BufferKind kind) {
  Instruction fetch = Make(InstructionKind::kFetch, Stream::kFetch, {});
  fetch.operands[0].buffer = {kind, 0};
  return fetch;
}

void Compute(DeviceOrder& order, int index) {
  REQUIRE(order.BeginWork(index).ok());
  REQUIRE(order.EndWork(index).ok());
}

TEST_CASE(
    "who waits for the device waits for the last of what it names, and a first gather for the step before") {
  const Device device = TestDevice();
  StepProgram program;
  for (int i = 0; i < 2; ++i)
    program.instructions.push_back(Make(InstructionKind::kForward, Stream::kCompute, {}));
  program.instructions.push_back(Make(InstructionKind::kSendActivation, Stream::kSendActivation, {0}));
  program.instructions.push_back(Make(InstructionKind::kSendActivation, Stream::kSendActivation, {1, 0, 2}));
  const Instruction message = Make(InstructionKind::kSendActivation, Stream::kSendActivation, {2});
  const Instruction first_gather = Make(InstructionKind::kGatherParameters, Stream::kCollective, {});
  const Instruction gather_into_window = Make(InstructionKind::kGatherParameters, Stream::kFetch, {});
  DeviceOrder order(*device.queue, program.instructions.size());
  REQUIRE(order.Open().ok());
  for (int run = 0; run < 2; ++run) {
    REQUIRE(order.Begin(program).ok());
    const std::optional<Fence> begun = order.DoneBefore(first_gather);
    REQUIRE(begun.has_value());
    Compute(order, 0);
    Compute(order, 1);
    const std::optional<Fence> one = order.DoneBefore(program.instructions[2]),
                               both = order.DoneBefore(program.instructions[3]);
    REQUIRE((one.has_value() && both.has_value()));
    CHECK(begun->value < one->value);
    CHECK(one->value < both->value);
    CHECK_FALSE(order.DoneBefore(message).has_value());
    CHECK_FALSE(order.DoneBefore(gather_into_window).has_value());
    REQUIRE(order.Finish().ok());
    std::vector<MeasuredTime> times(program.instructions.size());
    REQUIRE(order.ReadTimes(times).ok());
    CHECK(times[1].start_seconds >= times[0].end_seconds);
  }
}

TEST_CASE("a layer is new to the first pass that uses it after it came into its window, in every run") {
  const Device device = TestDevice();
  StepProgram program;
  program.instructions = {FetchOf(BufferKind::kParameterWindow), FetchOf(BufferKind::kMomentWindow),
                          FetchOf(BufferKind::kParameterWindow)};
  const auto pass = [](std::initializer_list<int> waits_for) {
    return Make(InstructionKind::kForward, Stream::kCompute, waits_for);
  };
  DeviceOrder order(*device.queue, program.instructions.size());
  REQUIRE(order.Open().ok());
  for (int run = 0; run < 2; ++run) {
    REQUIRE(order.Begin(program).ok());
    CHECK_FALSE(order.UsesNewLayer(pass({})));
    CHECK(order.UsesNewLayer(pass({0})));
    CHECK_FALSE(order.UsesNewLayer(pass({0})));
    CHECK_FALSE(order.UsesNewLayer(pass({1})));
    CHECK(order.UsesNewLayer(pass({1, 2})));
    CHECK_FALSE(order.UsesNewLayer(pass({0, 2})));
  }
}

}  // namespace
}  // namespace medley
