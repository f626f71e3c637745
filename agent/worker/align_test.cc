#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <optional>

#include "agent/worker/align_job.h"
#include "agent/worker/align_training.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/align/align_directory.h"
#include "runtime/engine/align/replay.h"

namespace medley {
namespace {

constexpr char kModel[] =
    "name: tiny\n"
    "model: {gpt2: {layers: 2, hidden: 8, heads: 2, vocabulary: 11}}\n"
    "data: {train: /unused.bin, format: uint16}\n"
    "batch: {sequences: 64, sequence_length: 6}\n"
    "steps: 100\n"
    "seed: 3\n";

Device Reference() {
  auto device = ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  REQUIRE(device.ok());
  return *std::move(device);
}

struct Fault {
  OpKind op;
  float factor = 1.001f;  // of its first output, an f32 tensor
};

// A device that gets one op wrong.
class FaultyOps final : public UniformOps<FaultyOps> {
 public:
  FaultyOps(std::unique_ptr<Ops> inner, DeviceQueue& queue, Fault fault)
      : inner_(std::move(inner)), queue_(queue), fault_(fault) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    const absl::Status status = RunOp(*inner_, args);
    if (status.ok() && KindOf(args) == fault_.op) Scale(args);
    return status;
  }
  void ParametersChanged() override { inner_->ParametersChanged(); }

 private:
  template <typename Args>
  void Scale(Args args) {
    for (const OpSlice& operand : SlicesOf(args)) {
      if (operand.access == Access::kRead) continue;
      std::vector<float> values(operand.elements);
      const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()), values.size() * 4);
      REQUIRE(queue_.Download(*operand.slice->buffer, {operand.slice->offset_bytes}, bytes).ok());
      REQUIRE(queue_.Wait(queue_.Record()).ok());
      for (float& value : values) value *= fault_.factor;
      REQUIRE(queue_.Upload(bytes, *operand.slice->buffer, {operand.slice->offset_bytes}).ok());
      return;
    }
  }

  const std::unique_ptr<Ops> inner_;
  DeviceQueue& queue_;
  const Fault fault_;
};

Device FaultyReference(std::optional<Fault> fault) {
  Device device = Reference();
  if (fault) device.ops = std::make_unique<FaultyOps>(std::move(device.ops), *device.queue, *fault);
  return device;
}

struct Run {
  Alignment alignment;
  LossComparison losses;
  CaptureCounts capture;
};

// What medley align does, with B faulty, in this process.
Run AlignWithFault(std::optional<Fault> fault) {
  const TemporaryDirectory temporary;
  AlignJob job = *MakeAlignJob({.model = temporary.Write("job.yaml", kModel), .steps = 2});
  job.spec.train_file.clear();
  const AlignDirectory directory(temporary.path());
  REQUIRE(directory.Create().ok());
  Device a = Reference(), b = FaultyReference(fault), oracle = Reference();
  auto recorder =
      std::make_unique<RecordingOps>(std::move(a.ops), *a.queue, CaptureLimits{},
                                     [&](const CapturedCall& call) { return directory.WriteCall(call); });
  RecordingOps& recording = *recorder;
  a.ops = std::move(recorder);
  Run run;
  std::vector<double> losses_a, losses_b;
  REQUIRE(TrainForAlignment(a, job, &recording, losses_a).ok());
  REQUIRE(TrainForAlignment(b, job, nullptr, losses_b).ok());
  const auto calls = directory.Calls();
  REQUIRE(calls.ok());
  for (const int64_t index : *calls) {
    const auto call = directory.ReadCall(index);
    REQUIRE(call.ok());
    for (const auto& [party, device] :
         {std::pair(Party::kA, &a), {Party::kB, &b}, {Party::kOracle, &oracle}}) {
      const auto result = Replay(*device, *call, Precision::kF32);
      REQUIRE(result.ok());
      REQUIRE(directory.WriteResult(party, *result).ok());
    }
  }
  run.alignment = *directory.Compare(Precision::kF32, Precision::kF32);
  run.losses = *CompareLosses(losses_a, losses_b, Precision::kF32, Precision::kF32);
  run.capture = recording.counts();
  return run;
}

TEST_CASE("a device is aligned with its like, call by call and loss by loss") {
  const Run run = AlignWithFault(std::nullopt);
  CHECK(run.alignment.aligned());
  CHECK(run.alignment.calls() == run.capture.captured);
  CHECK(run.alignment.calls() > 50);
  REQUIRE(run.losses.losses_a.size() == 2);
  CHECK(run.losses.losses_a == run.losses.losses_b);
  CHECK(run.losses.losses_a[1] < run.losses.losses_a[0]);
  const CaptureCounts& c = run.capture;
  CHECK(c.repeats > 0);  // a step has two micro-batches
  CHECK(c.impossible == 0);
  CHECK(c.captured + c.repeats + c.over_calls_of_a_shape + c.over_one_call + c.over_steps == c.calls);
}

TEST_CASE("of a whole training, the op that a device gets wrong parts first, and no other") {
  const OpKind faulty = GENERATE(OpKind::kLayerNormForward, OpKind::kAttentionBackward, OpKind::kSumRows);
  CAPTURE(NameOf(faulty));
  const Run run = AlignWithFault(Fault{faulty});
  REQUIRE_FALSE(run.alignment.aligned());
  const CallComparison& first = run.alignment.details().front();
  CHECK(first.kind == faulty);
  CHECK(first.place.step == 1);
  CHECK(first.parted(Pair::kBToOracle));
  CHECK_FALSE(first.parted(Pair::kAToOracle));
  for (const OpSummary& op : run.alignment.Summaries()) {
    CAPTURE(NameOf(op.kind), op.shape);
    CHECK((op.parted > 0) == (op.kind == faulty));
  }
  // The first call of it: in the first layer's first norm, the last layer's attention, the last layer's last
  // bias.
  if (faulty == OpKind::kLayerNormForward) CHECK(first.place.position == "h.0.ln_1.weight");
  if (faulty != OpKind::kLayerNormForward) CHECK(first.place.position.rfind("h.1.", 0) == 0);
}

TEST_CASE("a fault in the forward pass shows in the losses too") {
  CHECK_FALSE(AlignWithFault(Fault{OpKind::kLayerNormForward, 2.0f}).losses.aligned());
}

TEST_CASE("an alignment's job is the user's with a batch of two micro-batches") {
  const TemporaryDirectory temporary;
  const std::string file = temporary.Write("job.yaml", kModel);
  const auto job =
      MakeAlignJob({.model = file, .data = "other.txt", .precision = Precision::kBf16, .micro_batch = 3});
  REQUIRE(job.ok());
  CHECK(job->spec.shape.model.layers == 2);
  CHECK(job->spec.shape.global_batch_sequences == 6);
  CHECK(job->spec.shape.sequence == 6);
  CHECK(job->spec.precision == Precision::kBf16);
  CHECK(job->spec.train_file == "other.txt");
  CHECK(job->spec.seed == 3);
  CHECK(job->spec.steps == 100);
  CHECK(job->steps == 3);
}

TEST_CASE("what is wrong with an alignment's job is said with the option and what is allowed") {
  const TemporaryDirectory temporary;
  const std::string file = temporary.Write("job.yaml", kModel);
  struct Case {
    AlignJobOptions options;
    std::string says;
  };
  const std::vector<Case> cases = {{{.model = file, .steps = 0}, "--steps: 0, must be 1 to 1000"},
                                   {{.model = file, .micro_batch = 0}, "--micro-batch: 0, must be 1"},
                                   {{.model = file, .sequence = 7}, "--sequence: 7, must be 1 to 6"},
                                   {{.model = file + ".not"}, "--model: "},
                                   {{.model = temporary.path()}, "config.json"}};
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const absl::Status status = MakeAlignJob(c.options).status();
    CAPTURE(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find(c.says) != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace medley
