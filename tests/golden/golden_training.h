#pragma once
#include <cstdint>
#include <string>

#include "runtime/device/device.h"

// Medley's whole path, from Hugging Face's files and the token file to the last update, held against
// PyTorch's numbers in a golden folder. Each function makes the assertions of a Catch test.
namespace medley {

Device ReferenceTestDevice();
// With this processor's best instructions.
Device CpuTestDevice();

// All steps on one device: losses, norms, learning rates, validation, the weights after the last.
void CheckTraining(const std::string& folder, Device device, int micro_batch);

// The same under RandomPlan(seed) over up to four reference devices, but for the weights.
void CheckTrainingUnderRandomPlan(const std::string& folder, uint64_t seed);

// Losses and norms of all steps on one device in `precision`, with activations stored as the device stores them
// then, within what those roundings cost.
void CheckNarrowTraining(const std::string& folder, Device device, Precision precision);

// The gradients of the first step, tensor by tensor.
void CheckFirstGradients(const std::string& folder, Device device);

}  // namespace medley
