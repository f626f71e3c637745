// How often the hosts of GPUs wait in a training step, on the simulated driver: prints `key value` lines.
//   host_waits_at_step_end     of a single device, whatever the number of its micro-batches
//   host_waits_per_micro_batch at each end of a boundary of a pipeline, beside those
#include <cstdio>
#include <memory>
#include <string>

#include "kernels/cuda/simulated_device.h"
#include "kernels/cuda/simulated_driver.h"
#include "runtime/base/status_macros.h"
#include "tests/same_loss/training_harness.h"

namespace medley {
namespace {

constexpr int kMicroBatches = 16, kStages = 3;

TrainingSpec Job(int64_t steps) {
  TrainingSpec spec;
  spec.shape = {.model = {.layers = 4,
                          .hidden = 8,
                          .heads = 2,
                          .feed_forward = 16,
                          .vocabulary = 17,
                          .context = 6,
                          .family = ModelFamily::kLlama,
                          .tied_head = false},
                .sequence = 6,
                .global_batch_sequences = kMicroBatches};
  spec.steps = steps;
  spec.validation_batches = 1;
  return spec;
}

absl::StatusOr<int> WaitsOf(const TrainingSpec& spec, const Plan& plan) {
  const CudaDriver& driver = simulated::Start(1);
  RETURN_IF_ERROR(TrainUnderPlan(
                      spec, plan, [] { return std::make_unique<MadeUpWindows>(3, 17); }, nullptr,
                      [&](int) { return OpenSimulatedDevice(driver, MiB(256)); })
                      .status());
  return simulated::HostWaits();
}

// The host's waits in a step that is not the first, which opens what later ones use.
absl::StatusOr<int> WaitsOfStep(const Plan& plan) {
  ASSIGN_OR_RETURN(const int one, WaitsOf(Job(1), plan));
  ASSIGN_OR_RETURN(const int two, WaitsOf(Job(2), plan));
  return two - one;
}

absl::Status Run() {
  const TrainingShape shape = Job(1).shape;
  ASSIGN_OR_RETURN(const int many, WaitsOfStep(SingleDevicePlan(shape, 1)));
  ASSIGN_OR_RETURN(const int one, WaitsOfStep(SingleDevicePlan(shape, kMicroBatches)));
  Plan pipeline;
  pipeline.routes.push_back({.micro_batches = kMicroBatches, .micro_batch_sequences = 1});
  for (int s = 0; s < kStages; ++s) {
    pipeline.units.push_back({.devices = {"test/" + std::to_string(s)}, .chunks = {{2 * s, 2 * s + 2}}});
    pipeline.routes[0].units.push_back(s);
  }
  ASSIGN_OR_RETURN(const int in_pipeline, WaitsOfStep(pipeline));
  const int ends = 2 * (kStages - 1);
  std::printf("host_waits_at_step_end %d\n", one);
  std::printf("host_waits_per_micro_batch_single_device %.2f\n",
              static_cast<double>(many - one) / (kMicroBatches - 1));
  std::printf("host_waits_per_micro_batch %.2f\n",
              static_cast<double>(in_pipeline - kStages * one) / (kMicroBatches * ends));
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main() {
  const absl::Status status = medley::Run();
  if (!status.ok()) std::fprintf(stderr, "host_waits: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
