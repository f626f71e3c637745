#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/worker/align_job.h"
#include "runtime/engine/align/align_directory.h"
#include "runtime/engine/align/recording_ops.h"

namespace medley {

// One party's part of an alignment, in the files of `directory` (runtime/engine/align/align_directory.h),
// which exists:
//   A       trains and captures, then replays what it captured
//   B       trains, then replays
//   oracle  replays, in f32
struct AlignWork {
  Party party = Party::kA;
  std::string device;  // as runtime/device/device_name.h reads it
  AlignJobOptions job;
  CaptureLimits limits;
  std::string directory;
};

// Always leaves the party's record, unless the directory cannot be written to. What the device gets wrong is
// in the record and the results and is no error.
// Errors: those of opening the device, reading the model (InvalidArgument) and writing files.
absl::Status DoAlignWork(const AlignWork& work);

// OK, or why one of `devices` cannot be opened on this machine; opens none. A device that names no cores is
// asked for with all of this process's, one that names no variant with the best.
// InvalidArgument: no device's name, no such backend, variant or core, or the backend's objection.
absl::Status CheckNamedDevices(const std::vector<std::string>& devices);

}  // namespace medley
