#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"

namespace medley {

// How long a device was seen to take for one transformer layer, of one micro-batch.
struct MeasuredLayer {
  enum class Family : uint8_t { kGpt2, kLlama };
  Family family = Family::kGpt2;
  int hidden = 0, feed_forward = 0, heads = 0, key_value_heads = 0, sequence = 0, micro_batch = 0;
  Precision precision = Precision::kF32;
  double forward_seconds = 0, backward_seconds = 0;  // backward: without a second forward pass
};

// What is known of a device that is not there. README.md has the file's keys.
struct EmulationProfile {
  std::string kind;  // "A100-80GB"
  Bytes memory;
  double matmul_f32_flops_per_second = 0;  // sustained by large products
  // 0: it does not compute in it.
  double matmul_bf16_flops_per_second = 0, matmul_f16_flops_per_second = 0;
  ComputedPrecisions computes() const {
    return {.bf16 = matmul_bf16_flops_per_second > 0, .f16 = matmul_f16_flops_per_second > 0};
  }
  double memory_bytes_per_second = 0;
  double host_link_bytes_per_second = 0;  // uploads and downloads
  double op_overhead_seconds = 0;         // the least that an op or a copy takes
  double attention_efficiency = 0.5;      // share of the matmul rate that attention attains
  std::vector<MeasuredLayer> layers;      // in the file's order
  std::string digest;                     // eight hexadecimal digits of the file's bytes
};

// InvalidArgument "FILE:LINE: FIELD: PROBLEM", FILE being `file_name`: no YAML, an unknown key, one given
// twice or missing, a value of another type or out of range, two layers that differ in times alone.
absl::StatusOr<EmulationProfile> ParseEmulationProfile(const std::string& text, const std::string& file_name);

// NotFound or PermissionDenied with the path if it cannot be read; others as above.
absl::StatusOr<EmulationProfile> ReadEmulationProfile(const std::string& path);

}  // namespace medley
