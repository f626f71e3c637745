#include "kernels/emulated/op_cost.h"

#include <catch2/catch.hpp>
#include <memory>

namespace medley {
namespace {

// 100 TFLOP/s bf16, 10 f32, 1 TB/s, 5 us an op.
EmulationProfile Profile() {
  EmulationProfile profile;
  profile.matmul_f32_flops_per_second = 10e12;
  profile.matmul_bf16_flops_per_second = 100e12;
  profile.memory_bytes_per_second = 1e12;
  profile.host_link_bytes_per_second = 1e10;
  profile.op_overhead_seconds = 5e-6;
  profile.attention_efficiency = 0.5;
  return profile;
}

class NoMemory final : public Buffer {
 public:
  Bytes size() const override { return GiB(1); }
  std::byte* host_address() override { return nullptr; }
};

// Any slice that is given: costs look at shapes alone.
Slice Given() {
  static NoMemory buffer;
  return {&buffer, 0, 1};
}

TEST_CASE("a product's flops and bytes are those of its shape") {
  const OpCost cost = CostOf(MatmulArgs{.m = 8, .n = 16, .k = 32});
  CHECK(cost.kind == OpKind::kMatmul);
  CHECK(cost.flops == 2 * 8 * 16 * 32);
  CHECK(cost.bytes == 4 * (8 * 32 + 32 * 16 + 8 * 16));
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 16, .k = 32, .bias = Given()}).bytes == cost.bytes + 4 * 16);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 16, .k = 32, .store = Store::kAdd}).bytes == cost.bytes + 4 * 8 * 16);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 16, .k = 32, .epilogue = Epilogue::kGelu}).bytes ==
        cost.bytes + 4 * 8 * 16);
  CHECK(CostOf(MatmulArgs{.n = 16, .k = 32}).flops == 0);
}

TEST_CASE("ops that do as much in another way are told apart") {
  const OpCost plain = CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8});
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8}) == plain);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8, .transpose_a = Transpose::kYes}) != plain);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8, .transpose_b = Transpose::kYes}) != plain);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8, .precision = Precision::kBf16}) != plain);
  CHECK(CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8, .epilogue = Epilogue::kGelu}) !=
        CostOf(MatmulArgs{.m = 8, .n = 8, .k = 8, .epilogue = Epilogue::kGeluGradient}));
  const RotaryArgs rotary{.batch = 1, .sequence = 4, .rotated_heads = 2, .row_heads = 2, .head_size = 4};
  RotaryArgs back = rotary;
  back.rotation = Rotation::kBackward;
  CHECK(CostOf(rotary) != CostOf(back));
}

TEST_CASE("attention counts the pairs that the mask leaves, and its backward five products for two") {
  const AttentionForwardArgs forward{
      .batch = 2, .sequence = 3, .heads = 4, .key_value_heads = 4, .head_size = 8};
  CHECK(CostOf(forward).flops == 2 * 2.0 * 2 * 4 * 6 * 8);  // 1 + 2 + 3 pairs
  const AttentionBackwardArgs backward{
      .batch = 2, .sequence = 3, .heads = 4, .key_value_heads = 4, .head_size = 8};
  CHECK(CostOf(backward).flops == 2.5 * CostOf(forward).flops);
  AttentionForwardArgs grouped = forward;
  grouped.key_value_heads = 1;
  CHECK(CostOf(grouped).flops == CostOf(forward).flops);
  CHECK(CostOf(grouped).bytes < CostOf(forward).bytes);
}

TEST_CASE("the loss with gradients multiplies three times, and without once") {
  HeadLossArgs args{.rows = 4, .columns = 8, .vocabulary = 100};
  CHECK(CostOf(args).flops == 2 * 4 * 8 * 100);
  args.dx = args.dweight = Given();
  CHECK(CostOf(args).flops == 3 * 2 * 4 * 8 * 100);
}

TEST_CASE("of a shared head the statistics multiply once and the gradient three times, by this rank's part") {
  const HeadStatisticsArgs statistics{.rows = 4, .columns = 8, .first_token = 70, .vocabulary = 30};
  CHECK(CostOf(statistics).flops == 2 * 4 * 8 * 30);
  CHECK(CostOf(statistics).bytes == 4 * (4 * 8 + 30 * 8 + 4 + 2 * 4));
  const HeadGradientArgs gradient{.rows = 4, .columns = 8, .first_token = 70, .vocabulary = 30};
  CHECK(CostOf(gradient).flops == 3 * 2 * 4 * 8 * 30);
  CHECK(CostOf(gradient).bytes == 4 * (4 * 8 + 30 * 8 + 4 + 4 + 4 * 8 + 2 * 30 * 8));
  const JoinHeadStatisticsArgs join{.loss_sum = Given(), .members = 3, .rows = 4};
  CHECK(CostOf(join).flops == 0);
  CHECK(CostOf(join).bytes == 4 * (4 * 4 + 4) + 2 * 8);
}

TEST_CASE("an embedding moves a row a token, not the table, and AdamW its ranges, not what lies between") {
  const int64_t vocabulary = GENERATE(1, 16, 50000);
  const EmbeddingForwardArgs forward{.batch = 2, .sequence = 8, .columns = 16, .vocabulary = vocabulary};
  CHECK(CostOf(forward).bytes == 4 * (16 + 2 * 16 * 16));  // ids, rows read, rows written
  CHECK(CostOf(EmbeddingForwardArgs{.columns = 16, .vocabulary = vocabulary}).bytes == 0);
  const EmbeddingBackwardArgs backward{.batch = 2, .sequence = 8, .columns = 16, .vocabulary = vocabulary};
  CHECK(CostOf(backward).bytes == 4 * (16 + 3 * 16 * 16));
  const AdamWRange ranges[] = {{.first = 0, .elements = 10}, {.first = 1000, .elements = 30}};
  CHECK(CostOf(AdamWArgs{.ranges = ranges}).bytes == 7 * 4 * 40);
}

TEST_CASE("the roofline is the longer of computing and moving, and the overhead") {
  const EmulationProfile profile = Profile();
  const OpCost large = CostOf(MatmulArgs{.m = 4096, .n = 4096, .k = 4096});
  CHECK(RooflineSeconds(profile, large) == Approx(5e-6 + large.flops / 10e12));
  const OpCost thin = CostOf(MatmulArgs{.m = 4096, .n = 4096, .k = 1});
  CHECK(RooflineSeconds(profile, thin) == Approx(5e-6 + thin.bytes / 1e12));
  const OpCost nothing = CostOf(FillArgs{});
  CHECK(RooflineSeconds(profile, nothing) == Approx(5e-6));
}

TEST_CASE("bf16 products run at the bf16 rate, if the device has one; attention at its share") {
  EmulationProfile profile = Profile();
  const auto matmul = [](Precision precision) {
    return CostOf(MatmulArgs{.m = 4096, .n = 4096, .k = 4096, .precision = precision});
  };
  const double overhead = profile.op_overhead_seconds;
  const double f32 = RooflineSeconds(profile, matmul(Precision::kF32)) - overhead;
  CHECK(RooflineSeconds(profile, matmul(Precision::kBf16)) - overhead == Approx(f32 / 10));
  const OpCost attention = CostOf(AttentionForwardArgs{
      .batch = 8, .sequence = 4096, .heads = 16, .key_value_heads = 16, .head_size = 64});
  CHECK(RooflineSeconds(profile, attention) - overhead == Approx(attention.flops / 5e12));
  profile.matmul_bf16_flops_per_second = 0;
  CHECK(RooflineSeconds(profile, matmul(Precision::kBf16)) - overhead == Approx(f32));
}

}  // namespace
}  // namespace medley
