#include "coordinator/roofline/kind_profile.h"

#include "absl/strings/str_cat.h"

namespace medley {

// Of a bus by its data sheet, what copies of large runs of memory get. Usual, and measured by nobody here.
constexpr double kCopyShare = 0.75;

DeviceProfile KindProfile(CalibratedDevice device, const std::string& software, PredictionBasis basis,
                          const TrainingShape& shape, Precision precision, const std::string& shape_key,
                          const std::vector<int>& micro_batch_sizes) {
  DeviceProfile profile;
  profile.device_kind = device.figures.kind;
  profile.shape = shape_key;
  TrainingRun run;
  run.shape = shape;
  run.fused_attention = true;
  const bool in_f32 = device.figures.computes.For(precision) == Precision::kF32;
  if (in_f32) {
    device.figures.matmul_flops_per_second = device.figures.matmul_f32_flops_per_second;
    run.element_bytes = 4;
    basis = PredictionBasis::kOtherKinds;
  }
  for (const int sequences : micro_batch_sizes) {
    run.micro_batch_sequences = sequences;
    ProfiledTimes times{.micro_batch_sequences = sequences, .blocks = RooflineTimes(device, run)};
    // Both gradients of a product are as much work.
    times.blocks.layer.weight_gradient_seconds = times.blocks.layer.backward_seconds / 2;
    profile.times.push_back(times);
  }
  // The norm reads gradients of f32 once.
  profile.update_seconds_per_parameter = UpdateSeconds(device, run, 1);
  profile.norm_seconds_per_parameter =
      4 / (device.figures.memory_bytes_per_second * device.calibration.update_share);
  profile.has_own_memory = true;
  profile.fetch_bytes_per_second = profile.store_bytes_per_second =
      kCopyShare * device.figures.host_link_bytes_per_second;
  profile.basis = basis;
  profile.provenance = absl::StrCat("not measured: data sheet of ", device.figures.kind, ", coefficients of ",
                                    software, in_f32 ? " with operands of 16 bits, here f32" : "");
  return profile;
}

}  // namespace medley
