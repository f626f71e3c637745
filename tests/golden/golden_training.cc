#include "tests/golden/golden_training.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "comm/loopback/loopback_fabric.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_variant.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/exec/file_window_source.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "runtime/engine/exec/step_executor.h"
#include "tests/golden/golden_job.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

using nlohmann::json;
using Part = ParameterArena::Part;

// PyTorch's own float32 differs from its float64 by 5e-7; a wrong constant anywhere by 6e-5 and more
// (README.md).
constexpr double kLossTolerance = 2e-6;
constexpr double kNormTolerance = 1e-5;

// Six elements of a tensor and its norm, beside those of PyTorch in float64.
void CheckTensor(const std::string& name, const std::vector<float>& values, const json& golden,
                 double tolerance) {
  CAPTURE(name);
  double squared = 0;
  for (const float value : values) squared += static_cast<double>(value) * value;
  const double norm = golden["norm"];
  CHECK(std::sqrt(squared) == Approx(norm).epsilon(tolerance));
  const double typical = norm / std::sqrt(static_cast<double>(values.size()));
  for (size_t i = 0; i < golden["indices"].size(); ++i) {
    CAPTURE(i);
    CHECK(values.at(golden["indices"][i]) ==
          Approx(golden["values"][i].get<double>()).epsilon(0).margin(50 * tolerance * typical));
  }
}

// What a job starts from, in any holder's arena.
absl::Status Load(const HuggingFaceModel& model, ParameterArena& arena) {
  for (const SegmentId segment : arena.layout().segments) {
    std::vector<float> values(SegmentElements(model.config(), segment));
    absl::Status status = model.ReadSegment(segment, absl::MakeSpan(values));
    int64_t at = 0;
    for (const ParameterSpec& tensor : SegmentParameters(model.config(), segment)) {
      status.Update(arena.Write(Part::kParameter, tensor.name,
                                absl::MakeConstSpan(values).subspan(at, tensor.elements)));
      at += tensor.elements;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

Device ReferenceTestDevice() {
  absl::StatusOr<Device> device = ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = MiB(64)});
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return *std::move(device);
}

Device CpuTestDevice() {
  absl::StatusOr<Device> device = CpuBackend().open({.name = "cpu0",
                                                     .backend = "cpu",
                                                     .variant = DefaultCpuVariant(),
                                                     .cores = {0},
                                                     .memory_limit = MiB(64)});
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return *std::move(device);
}

void CheckTraining(const std::string& folder, Device device, int micro_batch) {
  CAPTURE(folder, micro_batch);
  const TrainingSpec spec = GoldenJob(folder);
  const json all = Golden(folder), golden = all["float64"];
  const Plan plan = SingleDevicePlan(spec.shape, micro_batch);
  const StepProgram program = CompileStep(plan, 0, spec.shape, Purpose::kTrain);
  const auto shard = ModelShard::Create(device, ShardOptionsOf(plan, program, spec.shape, Precision::kF32));
  INFO(shard.status().ToString());
  REQUIRE(shard.ok());
  REQUIRE(LoadHuggingFace(spec.hugging_face_directory, **shard).ok());
  const auto windows = FileWindowSource::Open(spec);
  INFO(windows.status().ToString());
  REQUIRE(windows.ok());
  LoopbackFabric fabric(1);
  const std::unique_ptr<Transport> transport = fabric.Join(0);
  StepExecutor executor({.spec = spec, .plan = plan}, **shard, *transport, **windows);
  CHECK(*executor.Evaluate() ==
        Approx(golden["initial_validation_loss"].get<double>()).epsilon(kLossTolerance));
  for (int64_t step = 1; step <= spec.steps; ++step) {
    CAPTURE(step);
    const absl::StatusOr<StepOutcome> outcome = executor.TrainStep(step, step < spec.steps);
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    CHECK(outcome->loss == Approx(golden["losses"][step - 1].get<double>()).epsilon(kLossTolerance));
    CHECK(outcome->gradient_norm ==
          Approx(golden["gradient_norms"][step - 1].get<double>()).epsilon(kNormTolerance));
    CHECK(outcome->learning_rate == Approx(all["learning_rates"][step - 1].get<double>()).epsilon(1e-12));
  }
  CHECK(*executor.Evaluate() ==
        Approx(golden["final_validation_loss"].get<double>()).epsilon(kLossTolerance));
  for (const PlacedParameter& placed : (*shard)->arena().layout().parameters) {
    std::vector<float> values(placed.spec.elements);
    REQUIRE((*shard)->arena().Read(Part::kParameter, placed.spec.name, absl::MakeSpan(values)).ok());
    // Adam divides by the root of v: a gradient that is all rounding (the keys' bias has none) moves at full
    // speed.
    const bool keys_bias = placed.spec.name.ends_with("c_attn.bias");
    CheckTensor(placed.spec.name, values, golden["final_parameters"][placed.spec.name],
                keys_bias ? 1e-2 : 1e-5);
  }
}

void CheckNarrowTraining(const std::string& folder, Device device, Precision precision) {
  CAPTURE(folder, precision);
  const double loss_tolerance = precision == Precision::kBf16 ? 2e-3 : 5e-4;
  const double norm_tolerance = precision == Precision::kBf16 ? 5e-2 : 1e-2;
  TrainingSpec spec = GoldenJob(folder);
  spec.precision = precision;
  const json golden = Golden(folder)["float64"];
  Plan plan = SingleDevicePlan(spec.shape, 1);
  plan.units[0].activations = TypeOf(device.computes.For(precision));
  const HuggingFaceModel model = *HuggingFaceModel::Open(folder);
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(
      spec, plan, [&] { return *FileWindowSource::Open(spec); },
      [&](ParameterArena& arena) { return Load(model, arena); },
      [&](int) -> absl::StatusOr<Device> { return std::move(device); });
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  double difference = 0;
  for (size_t i = 0; i < run->losses.size(); ++i) {
    CAPTURE(i);
    const double want = golden["losses"][i].get<double>();
    CHECK(run->losses[i] == Approx(want).epsilon(loss_tolerance));
    CHECK(run->gradient_norms[i] ==
          Approx(golden["gradient_norms"][i].get<double>()).epsilon(norm_tolerance));
    difference = std::max(difference, std::abs(run->losses[i] - want));
  }
  // It rounded, where the device computes in it.
  CHECK((difference > 1e-5) == (plan.units[0].activations != Dtype::kF32));
}

void CheckTrainingUnderRandomPlan(const std::string& folder, uint64_t seed) {
  const TrainingSpec spec = GoldenJob(folder);
  const Plan plan = RandomPlan(seed, spec.shape, 4);
  CAPTURE(folder, seed, Describe(plan));
  const json golden = Golden(folder)["float64"];
  const HuggingFaceModel model = *HuggingFaceModel::Open(folder);
  const absl::StatusOr<TrainingRun> run = TrainUnderPlan(
      spec, plan, [&] { return *FileWindowSource::Open(spec); },
      [&](ParameterArena& arena) { return Load(model, arena); });
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  for (size_t i = 0; i < run->losses.size(); ++i) {
    CAPTURE(i);
    CHECK(run->losses[i] == Approx(golden["losses"][i].get<double>()).epsilon(kLossTolerance));
    CHECK(run->gradient_norms[i] ==
          Approx(golden["gradient_norms"][i].get<double>()).epsilon(kNormTolerance));
  }
  CHECK(run->validation_loss ==
        Approx(golden["final_validation_loss"].get<double>()).epsilon(kLossTolerance));
}

void CheckFirstGradients(const std::string& folder, Device device) {
  CAPTURE(folder);
  const TrainingSpec spec = GoldenJob(folder);
  const json golden = Golden(folder)["float64"]["step_1_gradients"];
  const int windows_in_step = spec.shape.global_batch_sequences;
  const auto shard = ModelShard::Create(device, {.shape = spec.shape,
                                                 .chunks = {{0, spec.shape.model.blocks()}},
                                                 .micro_batch_sequences = windows_in_step,
                                                 .buffers = {.stash = {1}}});
  REQUIRE(shard.ok());
  REQUIRE(LoadHuggingFace(spec.hugging_face_directory, **shard).ok());
  const auto source = FileWindowSource::Open(spec);
  std::vector<int32_t> inputs, targets, window(spec.shape.sequence + 1);
  for (int i = 0; i < windows_in_step; ++i) {
    REQUIRE((*source)->Read(Purpose::kTrain, 0, i, absl::MakeSpan(window)).ok());
    inputs.insert(inputs.end(), window.begin(), window.end() - 1);
    targets.insert(targets.end(), window.begin() + 1, window.end());
  }
  REQUIRE((*shard)->SetTokens({}, inputs).ok());
  REQUIRE((*shard)->SetTargets({}, targets).ok());
  REQUIRE((*shard)->Forward({}, Purpose::kTrain).ok());
  REQUIRE((*shard)->Backward({}).ok());
  for (const PlacedParameter& placed : (*shard)->arena().layout().parameters) {
    std::vector<float> values(placed.spec.elements);
    REQUIRE((*shard)->arena().Read(Part::kGradient, placed.spec.name, absl::MakeSpan(values)).ok());
    CheckTensor(placed.spec.name, values, golden[placed.spec.name], 1e-5);
  }
}

}  // namespace medley
