#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/dtype.h"
#include "runtime/engine/align/recording_ops.h"

namespace medley {

// What one worker did for an alignment, beside the results of the calls.
struct DeviceRecord {
  std::string device;  // as it was asked for: "cpu:avx2/1"
  std::string name;    // as it calls itself: "cpu-avx2 (1 core)"; empty: it was not opened
  Precision computes_in = Precision::kF32;  // a device without bf16 runs a bf16 job in f32
  std::vector<double> losses;  // by step, as far as it came; a device that does not train has none
  CaptureCounts capture;       // of the device that captured
  absl::Status status;         // of opening the device and reading the model; then nothing was done
  absl::Status training;       // why the losses end early
};

// JSON, one object. Losses are finite.
std::string EncodeDeviceRecord(const DeviceRecord& record);
// InvalidArgument: no JSON, a member that is missing, of another type or out of range, with its name and
// value.
absl::StatusOr<DeviceRecord> DecodeDeviceRecord(const std::string& text);

}  // namespace medley
