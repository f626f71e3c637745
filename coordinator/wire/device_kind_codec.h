#pragma once
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/roofline/device_figures.h"
#include "proto/medley/v1/device_kind.pb.h"

namespace medley {

// A kind with what was learnt of it.
struct DeviceKindProfile {
  DeviceFigures figures;
  struct Learnt {
    Calibration calibration;
    double error_mean = 0;  // relative, on rows that a fit had not seen
    int rows = 0;
  };
  std::map<std::string, Learnt> by_software;
};

// `kind` has passed ValidateMessage. InvalidArgument "FIELD PATH: value and what is allowed": a coefficient that is none
// or not positive, a figure that is 0, a software given twice.
absl::StatusOr<DeviceKindProfile> DecodeDeviceKind(const v1::DeviceKind& kind);

// Reads a file of `profiles/`. Errors of ReadYamlFile; those of DecodeDeviceKind with the file's name.
absl::StatusOr<DeviceKindProfile> ReadDeviceKind(const std::string& path);

}  // namespace medley
