#include "coordinator/roofline/kind_profile.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const CalibratedDevice kDevice{{.kind = "A100-80",
                                .matmul_flops_per_second = 312e12,
                                .matmul_f32_flops_per_second = 19.5e12,
                                .memory_bytes_per_second = 2e12,
                                .node_link_bytes_per_second = 300e9,
                                .host_link_bytes_per_second = 32e9,
                                .memory = GiB(80),
                                .computes = {.bf16 = true}},
                               {}};
const TrainingShape kShape{
    {.layers = 24, .hidden = 2048, .heads = 16, .feed_forward = 8192, .vocabulary = 50304, .context = 1024},
    1024,
    32};

TEST_CASE("a kind's profile has the roofline's times for each micro-batch and says what it is") {
  const DeviceProfile profile = KindProfile(kDevice, "megatron-lm 2021", PredictionBasis::kOtherShapes,
                                            kShape, Precision::kBf16, "a shape", {1, 4});
  CHECK(profile.device_kind == "A100-80");
  CHECK(profile.shape == "a shape");
  REQUIRE(profile.times.size() == 2);
  CHECK(profile.times[1].micro_batch_sequences == 4);
  CHECK(profile.times[1].blocks.layer.forward_seconds > profile.times[0].blocks.layer.forward_seconds);
  TrainingRun run;
  run.shape = kShape;
  run.fused_attention = true;
  run.micro_batch_sequences = 4;
  const BlockTimes times = RooflineTimes(kDevice, run);
  CHECK(profile.times[1].blocks.layer.backward_seconds == times.layer.backward_seconds);
  CHECK(profile.times[1].blocks.head == times.head);
  CHECK(profile.times[1].blocks.layer.weight_gradient_seconds == times.layer.backward_seconds / 2);
  CHECK(profile.update_seconds_per_parameter > profile.norm_seconds_per_parameter);
  CHECK(profile.fetch_bytes_per_second == 24e9);
  CHECK(profile.store_bytes_per_second == 24e9);
  CHECK_FALSE(profile.measured_with.has_value());
  CHECK(profile.basis == PredictionBasis::kOtherShapes);
  CHECK(profile.provenance == "not measured: data sheet of A100-80, coefficients of megatron-lm 2021");
}

TEST_CASE("where a kind computes a job in f32 products go by that rate, and twice the bytes move") {
  const auto layer = [&](Precision precision) {
    return KindProfile(kDevice, "s", PredictionBasis::kOtherShapes, kShape, precision, "a shape", {4})
        .times[0]
        .blocks.layer.forward_seconds;
  };
  CHECK(layer(Precision::kF16) == layer(Precision::kF32));
  CHECK(layer(Precision::kF32) > 8 * layer(Precision::kBf16));
  CHECK(layer(Precision::kF32) < 16 * layer(Precision::kBf16));
  const DeviceProfile in_f32 =
      KindProfile(kDevice, "s", PredictionBasis::kOtherShapes, kShape, Precision::kF32, "a shape", {4});
  CHECK(in_f32.basis == PredictionBasis::kOtherKinds);
  CHECK(in_f32.provenance ==
        "not measured: data sheet of A100-80, coefficients of s with operands of 16 bits, here f32");
}

}  // namespace
}  // namespace medley
