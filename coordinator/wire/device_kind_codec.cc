#include "coordinator/wire/device_kind_codec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

std::string CoefficientNames() {
  std::vector<std::string> names;
  for (const Coefficient& coefficient : kCoefficients) names.push_back(coefficient.name);
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<Calibration> DecodeCalibration(const v1::DeviceCalibration& message, const std::string& path) {
  Calibration calibration;
  for (const auto& [name, value] : message.coefficients()) {
    const auto coefficient =
        std::find_if(kCoefficients.begin(), kCoefficients.end(),
                     [&name = name](const Coefficient& known) { return known.name == name; });
    const std::string field = absl::StrCat(path, ".coefficients[", name, "]");
    if (coefficient == kCoefficients.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": is no coefficient; allowed are ", CoefficientNames()));
    }
    if (!std::isfinite(value) || value <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not positive"));
    }
    calibration.*coefficient->value = value;
  }
  return calibration;
}

}  // namespace

absl::StatusOr<DeviceKindProfile> DecodeDeviceKind(const v1::DeviceKind& kind) {
  DeviceKindProfile profile;
  profile.figures = {.kind = kind.kind(),
                     .matmul_flops_per_second = kind.matmul_flops_per_second(),
                     .matmul_f32_flops_per_second = kind.matmul_f32_flops_per_second(),
                     .memory_bytes_per_second = kind.memory_bytes_per_second(),
                     .node_link_bytes_per_second = kind.node_link_bytes_per_second(),
                     .host_link_bytes_per_second = kind.host_link_bytes_per_second(),
                     .memory = Bytes{static_cast<int64_t>(kind.memory_bytes())},
                     .computes = {.bf16 = kind.computes_bf16(), .f16 = kind.computes_f16()}};
  for (int i = 0; i < kind.calibrations_size(); ++i) {
    const v1::DeviceCalibration& message = kind.calibrations(i);
    const std::string path = absl::StrCat("calibrations[", i, "]");
    ASSIGN_OR_RETURN(const Calibration calibration, DecodeCalibration(message, path));
    const auto [at, is_new] = profile.by_software.insert(
        {message.software(), {calibration, message.error_mean(), static_cast<int>(message.rows())}});
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".software: \"", message.software(),
                                                     "\" is there before; each is allowed once"));
    }
  }
  return profile;
}

absl::StatusOr<DeviceKindProfile> ReadDeviceKind(const std::string& path) {
  v1::DeviceKind kind;
  RETURN_IF_ERROR(ReadYamlFile(path, &kind));
  absl::StatusOr<DeviceKindProfile> profile = DecodeDeviceKind(kind);
  if (!profile.ok()) return Annotate(profile.status(), path);
  return profile;
}

}  // namespace medley
