#include "runtime/engine/align/replay.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "runtime/engine/align/alignment.h"
#include "runtime/engine/align/recording_ops.h"

namespace medley {
namespace {

Device Reference() {
  auto device = ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  REQUIRE(device.ok());
  return *std::move(device);
}

struct Captured {
  std::vector<CapturedCall> calls;
  CaptureCounts counts;
};

// A few ops as a layer would call them, in place and with sums, on a device of their own.
class Program {
 public:
  explicit Program(const CaptureLimits& limits = {}) : device_(Reference()) {
    auto recorder = std::make_unique<RecordingOps>(std::move(device_.ops), *device_.queue, limits,
                                                   [this](const CapturedCall& call) {
                                                     captured_.push_back(call);
                                                     return absl::OkStatus();
                                                   });
    recorder_ = recorder.get();
    device_.ops = std::move(recorder);
    memory_ = *device_.queue->Allocate({4 * 1024});
    std::vector<float> values(1024);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    REQUIRE(device_.queue->Upload({reinterpret_cast<std::byte*>(values.data()), 4096}, *memory_, {0}).ok());
  }

  Slice At(int64_t first, int64_t elements) { return Slice{memory_.get(), 0, 1024}.Sub(first, elements); }
  RecordingOps& recorder() { return *recorder_; }
  Ops& ops() { return *device_.ops; }

  void Step() {
    // x [4,6] at 0, weight [6,5] at 100, its gradient at 200, output [4,5] at 300.
    REQUIRE(ops().Matmul({.a = At(0, 24), .b = At(100, 30), .c = At(300, 20), .m = 4, .n = 5, .k = 6}).ok());
    REQUIRE(ops().GeluForward({.x = At(300, 20), .y = At(400, 20), .elements = 20}).ok());
    REQUIRE(
        ops().GeluBackward({.x = At(300, 20), .dy = At(400, 20), .dx = At(400, 20), .elements = 20}).ok());
    REQUIRE(ops()
                .Matmul({.a = At(0, 24),
                         .b = At(400, 20),
                         .c = At(200, 30),
                         .m = 6,
                         .n = 5,
                         .k = 4,
                         .transpose_a = Transpose::kYes,
                         .store = Store::kAdd})
                .ok());
    REQUIRE(ops().Fill({At(600, 200), 200, 0.5f}).ok());
  }

  std::vector<CapturedCall>& captured() { return captured_; }

 private:
  Device device_;
  std::unique_ptr<Buffer> memory_;
  RecordingOps* recorder_ = nullptr;
  std::vector<CapturedCall> captured_;
};

// Adds to the first float that `kind` writes, after the op has run.
class FaultyOps final : public UniformOps<FaultyOps> {
 public:
  FaultyOps(std::unique_ptr<Ops> inner, DeviceQueue& queue, OpKind kind)
      : inner_(std::move(inner)), queue_(queue), kind_(kind) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    const absl::Status status = RunOp(*inner_, args);
    if (!status.ok() || KindOf(args) != kind_) return status;
    Args copy = args;
    for (const OpSlice& operand : SlicesOf(copy)) {
      if (operand.access == Access::kRead) continue;
      float value = 0;
      const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(&value), 4);
      REQUIRE(queue_.Download(*operand.slice->buffer, {operand.slice->offset_bytes}, bytes).ok());
      REQUIRE(queue_.Wait(queue_.Record()).ok());
      value += 1e-3f;
      REQUIRE(queue_.Upload(bytes, *operand.slice->buffer, {operand.slice->offset_bytes}).ok());
      break;
    }
    return status;
  }
  void ParametersChanged() override { inner_->ParametersChanged(); }

 private:
  const std::unique_ptr<Ops> inner_;
  DeviceQueue& queue_;
  const OpKind kind_;
};

Alignment Align(const std::vector<CapturedCall>& calls, Device& a, Device& b) {
  Device oracle = Reference();
  Alignment alignment;
  for (const CapturedCall& call : calls) {
    const auto on = [&](Device& device) {
      absl::StatusOr<CallResult> result = Replay(device, call, Precision::kF32);
      REQUIRE(result.ok());
      return *std::move(result);
    };
    alignment.Add(CompareCall(call, {on(a), on(b), on(oracle)}, Precision::kF32, Precision::kF32));
  }
  return alignment;
}

TEST_CASE("what was captured and run again is what was computed then") {
  Program program;
  program.recorder().BeginStep(1);
  program.Step();
  REQUIRE(program.captured().size() == 5);
  Device device = Reference();
  // The second call's input is what the first one made of its own; the third's gradient what the second made.
  const auto product = Replay(device, program.captured()[0], Precision::kF32);
  REQUIRE(product.ok());
  REQUIRE(product->outputs.size() == 1);
  CHECK(product->outputs[0].name == "c");
  CHECK(product->outputs[0].contents == program.captured()[1].tensors[0].before);
  const auto activated = Replay(device, program.captured()[1], Precision::kF32);
  CHECK(activated->outputs[0].contents == program.captured()[2].tensors[1].before);
  // In place: dx lies where dy does.
  CHECK(program.captured()[2].tensors[2].same_as == 1);
  const auto gradient = Replay(device, program.captured()[2], Precision::kF32);
  CHECK(gradient->outputs[0].contents == program.captured()[3].tensors[1].before);
  // += : what was there before counts.
  const CapturedTensor& sum = program.captured()[3].tensors[2];
  CHECK(sum.access == Access::kUpdate);
  CHECK(sum.before.size() == 120);
}

TEST_CASE("an op that leaves part of its output unwritten shows as NaN") {
  Program program;
  program.recorder().BeginStep(1);
  program.Step();
  CapturedCall call = program.captured()[1];
  std::get<GeluForwardArgs>(call.args).elements = 19;  // the last one is left out
  call.tensors[1].elements = 20;
  REQUIRE(CheckCall(call).ok());
  Device device = Reference();
  const auto result = Replay(device, call, Precision::kF32);
  REQUIRE(result.ok());
  const TensorView y{Dtype::kF32, result->outputs[0].contents};
  REQUIRE(y.elements() == 20);
  CHECK(std::isnan(y[19]));
  CHECK(std::isfinite(y[18]));
}

TEST_CASE("the op that a device gets wrong is the first that parts, and the only one") {
  Program program;
  program.recorder().BeginStep(1);
  program.Step();
  const auto [faulty, first_index, calls] =
      GENERATE(table<OpKind, int64_t, int64_t>({{OpKind::kMatmul, 0, 2},
                                                {OpKind::kGeluForward, 1, 1},
                                                {OpKind::kGeluBackward, 2, 1},
                                                {OpKind::kFill, 4, 1}}));
  CAPTURE(NameOf(faulty));
  Device a = Reference(), b = Reference();
  CHECK(Align(program.captured(), a, b).aligned());
  b.ops = std::make_unique<FaultyOps>(std::move(b.ops), *b.queue, faulty);
  const Alignment alignment = Align(program.captured(), a, b);
  CHECK(alignment.parted() == calls);
  REQUIRE_FALSE(alignment.details().empty());
  const CallComparison& first = alignment.details().front();
  CHECK(first.kind == faulty);
  CHECK(first.place.index == first_index);
  CHECK_FALSE(first.parted(Pair::kAToOracle));
  CHECK(first.parted(Pair::kBToOracle));
  CHECK(first.parted(Pair::kBToA));
  CHECK(first.worst(Pair::kBToOracle)->differences[static_cast<int>(Pair::kBToOracle)].worst == 0);
}

TEST_CASE("a step captures each op, shape and parameter once, up to the limits, and counts the rest") {
  Program program({.calls_of_a_shape = 2});
  int64_t layer = 0;
  program.recorder().SetParameterAt([&](const Slice& slice) {
    return slice.offset_bytes == 400 ? "h." + std::to_string(layer) + ".weight" : "";
  });
  program.Step();  // before the first step: neither counted nor captured
  CHECK(program.recorder().counts().calls == 0);
  program.recorder().BeginStep(1);
  for (layer = 0; layer < 3; ++layer) {
    program.Step();
    program.Step();
  }
  const CaptureCounts& counts = program.recorder().counts();
  CHECK(counts.calls == 30);
  CHECK(counts.captured == 10);               // five ops at two positions
  CHECK(counts.repeats == 10);                // the second round at those
  CHECK(counts.over_calls_of_a_shape == 10);  // the third position
  // What has no parameter of its own stands where the last one that has does.
  CHECK(program.captured()[1].place.position == "h.0.weight");
  CHECK(program.captured()[6].place.position == "h.1.weight");
  CHECK(program.captured()[6].place.index == 11);
  program.recorder().BeginStep(2);
  program.Step();
  CHECK(program.captured().back().place.step == 2);
  CHECK(counts.captured == 15);
  program.recorder().EndSteps();
  program.Step();
  CHECK(counts.calls == 35);
}

TEST_CASE("a step's bytes are bounded, and a later step may use what an earlier one left") {
  // One step's calls read 216, 80, 160, 296 and 0 B.
  Program program({.one_step = {400}});
  program.recorder().BeginStep(1);
  program.Step();
  CHECK(program.recorder().counts().captured_bytes.value == 216 + 80);
  CHECK(program.recorder().counts().over_steps == 2);
  program.recorder().BeginStep(2);
  program.Step();
  CHECK(program.recorder().counts().captured_bytes.value == 2 * (216 + 80) + 160);
  CHECK(program.recorder().counts().over_steps == 3);
}

TEST_CASE("a call over its limit is left out, one over a whole arena is shortened") {
  Program program({.one_call = {200}, .elements_of_arena_calls = 64});
  program.recorder().BeginStep(1);
  program.Step();
  CHECK(program.recorder().counts().over_one_call == 2);  // both matmuls
  CHECK(program.recorder().counts().shortened == 1);
  CHECK(std::get<FillArgs>(program.captured().back().args).elements == 64);
  Device device = Reference();
  const auto result = Replay(device, program.captured().back(), Precision::kF32);
  REQUIRE(result.ok());
  CHECK(result->outputs[0].contents.size() == 256);
}

TEST_CASE("AdamW over an arena is cut at a range's end or inside it") {
  Program program({.elements_of_arena_calls = 50});
  program.recorder().BeginStep(1);
  const std::vector<AdamWRange> ranges = {{0, 40, 0.1f}, {40, 20, 0.0f}, {60, 40, 0.1f}};
  REQUIRE(program.ops()
              .AdamW({.parameter = program.At(0, 100),
                      .gradient = program.At(100, 100),
                      .m = program.At(200, 100),
                      .v = program.At(900, 100),
                      .ranges = ranges,
                      .learning_rate = 0.01f})
              .ok());
  REQUIRE(program.captured().size() == 1);
  const CapturedCall& call = program.captured()[0];
  REQUIRE(call.ranges.size() == 2);
  CHECK(call.ranges[1].elements == 10);
  CHECK(call.ranges[1].weight_decay == 0.0f);
  CHECK(call.tensors[0].elements == 50);
  Device device = Reference();
  const auto result = Replay(device, call, Precision::kF32);
  REQUIRE(result.ok());
  CHECK(result->status.ok());
  CHECK(result->outputs.size() == 3);
}

TEST_CASE("a device that cannot run a call says so in its result") {
  Program program;
  program.recorder().BeginStep(1);
  program.Step();
  Device device = Reference();
  device.ops = std::make_unique<DecliningOps>();
  const auto result = Replay(device, program.captured()[0], Precision::kF32);
  REQUIRE(result.ok());
  CHECK(absl::IsUnimplemented(result->status));
  CHECK(result->outputs.empty());
}

}  // namespace
}  // namespace medley
