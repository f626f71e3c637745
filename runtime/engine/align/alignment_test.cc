#include "runtime/engine/align/alignment.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

namespace medley {
namespace {

std::vector<std::byte> Bytes32(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

CapturedCall MatmulCall(int64_t index, Precision precision = Precision::kF32) {
  MatmulArgs args{.m = 1, .n = 2, .k = 1, .precision = precision};
  args.a = args.b = args.c = PlacelessSlice(2);
  return {.place = {.index = index, .step = 1, .position = "h.0.attn.c_attn.weight"}, .args = args};
}

CapturedCall FillCall(int64_t index) {
  return {.place = {.index = index, .step = 1}, .args = FillArgs{PlacelessSlice(2), 2, 1.0f}};
}

CallResult ResultOf(const CapturedCall& call, const std::vector<float>& values) {
  return {.index = call.place.index, .outputs = {{"c", Dtype::kF32, Bytes32(values)}}};
}

CallComparison Compared(const CapturedCall& call, const std::vector<float>& a, const std::vector<float>& b,
                        const std::vector<float>& oracle, Precision precision_a = Precision::kF32,
                        Precision precision_b = Precision::kF32) {
  return CompareCall(call, {ResultOf(call, a), ResultOf(call, b), ResultOf(call, oracle)}, precision_a,
                     precision_b);
}

TEST_CASE("each device is held to the oracle, and both to each other") {
  const CallComparison aligned = Compared(MatmulCall(0), {1, 2}, {1, 2}, {1, 2});
  CHECK(aligned.aligned());
  const CallComparison off = Compared(MatmulCall(0), {1, 2}, {1, 2.001f}, {1, 2});
  CHECK_FALSE(off.aligned());
  CHECK_FALSE(off.parted(Pair::kAToOracle));
  CHECK(off.parted(Pair::kBToOracle));
  CHECK(off.parted(Pair::kBToA));
  // Both wrong in the same way: they agree, and are not aligned all the same.
  const CallComparison both = Compared(MatmulCall(0), {1, 2.5f}, {1, 2.5f}, {1, 2});
  CHECK_FALSE(both.parted(Pair::kBToA));
  CHECK_FALSE(both.aligned());
}

TEST_CASE("devices may be apart by the sum of what each may be off") {
  const double allowed = ToleranceOf(Arithmetic::kSum, Precision::kF32) * (1 + 1);
  const auto apart = static_cast<float>(0.9 * allowed);
  const CallComparison sides = Compared(MatmulCall(0), {1 - apart, 1}, {1 + apart, 1}, {1, 1});
  CHECK(sides.aligned());
  CHECK(sides.outputs[0].differences[static_cast<int>(Pair::kBToA)].worst_ratio > 0.5);
}

TEST_CASE("a device is held to the precision that it computes in, in ops that know several") {
  const std::vector<float> rounded = {1.004f, 2};
  const auto matmul = [&](Precision a, Precision b) {
    return Compared(MatmulCall(0), {1, 2}, rounded, {1, 2}, a, b).aligned();
  };
  CHECK_FALSE(matmul(Precision::kF32, Precision::kF32));
  CHECK(matmul(Precision::kF32, Precision::kBf16));
  CHECK_FALSE(matmul(Precision::kBf16, Precision::kF32));
  CHECK_FALSE(Compared(FillCall(0), {1, 2}, rounded, {1, 2}, Precision::kBf16, Precision::kBf16).aligned());
}

TEST_CASE("a party that failed, or left other outputs, is named and not compared") {
  const CapturedCall call = MatmulCall(0);
  const CallResult good = ResultOf(call, {1, 2});
  const CallComparison failed =
      CompareCall(call, {good, {.index = 0, .status = absl::UnimplementedError("no kernel")}, good},
                  Precision::kF32, Precision::kF32);
  CHECK_FALSE(failed.aligned());
  CHECK(failed.failed(Party::kB));
  CHECK_FALSE(failed.failed(Party::kA));
  CHECK(failed.outputs.empty());
  CHECK(failed.worst(Pair::kBToA) == nullptr);
  const CallComparison shorter =
      CompareCall(call, {good, ResultOf(call, {1}), good}, Precision::kF32, Precision::kF32);
  CHECK(shorter.failed(Party::kB));
  CHECK_FALSE(shorter.aligned());
  const CallComparison without_oracle =
      CompareCall(call, {good, good, {.index = 0, .status = absl::InternalError("gone")}}, Precision::kF32,
                  Precision::kF32);
  CHECK(without_oracle.failed(Party::kOracle));
  CHECK_FALSE(without_oracle.failed(Party::kA));
}

TEST_CASE("summaries group by op and shape, and details come in program order") {
  Alignment alignment;
  alignment.Add(Compared(FillCall(0), {1, 1}, {1, 1}, {1, 1}));
  alignment.Add(Compared(MatmulCall(1), {1, 2}, {1, 2}, {1, 2}));
  alignment.Add(Compared(MatmulCall(2), {1, 2}, {1, 2.5f}, {1, 2}));
  alignment.Add(Compared(FillCall(3), {1, 1}, {1, 2}, {1, 1}));
  CHECK(alignment.calls() == 4);
  CHECK(alignment.parted() == 2);
  CHECK_FALSE(alignment.aligned());
  const std::vector<OpSummary> summaries = alignment.Summaries();
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].kind == OpKind::kMatmul);
  CHECK(summaries[0].calls == 2);
  CHECK(summaries[0].parted == 1);
  CHECK(summaries[0].worst_output == "c");
  CHECK(summaries[0].worst[static_cast<int>(Pair::kBToOracle)].max_absolute == 0.5);
  CHECK(summaries[0].worst[static_cast<int>(Pair::kAToOracle)].max_absolute == 0);
  CHECK(summaries[0].lowest_cosine < 1);
  CHECK(summaries[1].kind == OpKind::kFill);
  REQUIRE(alignment.details().size() == 2);
  CHECK(alignment.details()[0].place.index == 2);
  CHECK(alignment.details()[1].place.index == 3);
}

TEST_CASE("overflow on all sides is aligned, and counted") {
  const float infinity = std::numeric_limits<float>::infinity();
  Alignment alignment;
  alignment.Add(Compared(MatmulCall(0), {1, infinity}, {1, infinity}, {1, infinity}));
  CHECK(alignment.aligned());
  CHECK(alignment.Summaries()[0].not_finite == 3);
}

TEST_CASE("losses part at the first step that is beyond the tolerance") {
  const auto same = CompareLosses({5, 4, 3}, {5, 4.00001f, 3}, Precision::kF32, Precision::kF32);
  REQUIRE(same.ok());
  CHECK(same->aligned());
  CHECK(same->worst_relative > 0);
  const auto parted = CompareLosses({5, 4, 3}, {5, 4.1, 3.5}, Precision::kF32, Precision::kF32);
  CHECK(parted->first_parted_step == 2);
  CHECK(parted->worst_relative == Approx(0.5 / 3.5));
  CHECK(CompareLosses({5}, {5.01}, Precision::kF32, Precision::kBf16)->aligned());
  CHECK(CompareLosses({0}, {0}, Precision::kF32, Precision::kF32)->aligned());
  CHECK_FALSE(CompareLosses({1}, {std::numeric_limits<double>::quiet_NaN()}, Precision::kF32, Precision::kF32)
                  ->aligned());
  CHECK(absl::IsInvalidArgument(CompareLosses({1}, {}, Precision::kF32, Precision::kF32).status()));
}

}  // namespace
}  // namespace medley
