#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/host/host_queue.h"
#include "kernels/opencl/opencl_backend.h"
#include "kernels/reference/reference_ops.h"
#include "tests/skipped.h"

namespace medley {
namespace {

constexpr int64_t kPositions = 70, kHeads = 2, kHeadSize = 251;  // one key-value head
constexpr int64_t kRow = (kHeads + 2) * kHeadSize, kOut = kPositions * kHeads * kHeadSize;

std::vector<float> Random(uint64_t seed, int64_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// out, log_sum_exp and dqkv, one after another.
std::vector<float> Attend(DeviceQueue& queue, Ops& ops, const std::vector<float>& qkv,
                          const std::vector<float>& dout) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto make = [&](int64_t elements) {
    buffers.push_back(queue.Allocate({4 * elements}).value());
    return Slice{buffers.back().get(), 0, elements};
  };
  const auto put = [&](const std::vector<float>& values) {
    const Slice slice = make(static_cast<int64_t>(values.size()));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    REQUIRE(queue.Upload({bytes, values.size() * 4}, *slice.buffer, {0}).ok());
    return slice;
  };
  const Slice at_qkv = put(qkv), at_dout = put(dout), out = make(kOut),
              log_sum_exp = make(kPositions * kHeads);
  const Slice dqkv = make(kPositions * kRow);
  REQUIRE(ops.AttentionForward({.qkv = at_qkv,
                                .out = out,
                                .log_sum_exp = log_sum_exp,
                                .batch = 1,
                                .sequence = kPositions,
                                .heads = kHeads,
                                .key_value_heads = 1,
                                .head_size = kHeadSize})
              .ok());
  REQUIRE(ops.AttentionBackward({.qkv = at_qkv,
                                 .out = out,
                                 .log_sum_exp = log_sum_exp,
                                 .dout = at_dout,
                                 .dqkv = dqkv,
                                 .batch = 1,
                                 .sequence = kPositions,
                                 .heads = kHeads,
                                 .key_value_heads = 1,
                                 .head_size = kHeadSize})
              .ok());
  std::vector<float> result;
  for (const Slice& slice : {out, log_sum_exp, dqkv}) {
    std::vector<float> values(slice.elements);
    REQUIRE(
        queue.Download(*slice.buffer, {0}, {reinterpret_cast<std::byte*>(values.data()), values.size() * 4})
            .ok());
    REQUIRE(queue.Wait(queue.Record()).ok());
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

TEST_CASE("attention with heads of the greatest width agrees with the reference") {
  absl::StatusOr<Device> device =
      OpenClBackend().open({.name = "device", .backend = "opencl", .cores = {0}, .memory_limit = MiB(64)});
  if (!device.ok()) {
    Skipped("an OpenCL device", std::string(device.status().message()));
    return;
  }
  const uint64_t seed = 3;
  CAPTURE(seed);
  const std::vector<float> qkv = Random(seed, kPositions * kRow), dout = Random(seed + 1, kOut);
  HostQueue host("reference", MiB(64));
  ReferenceOps reference(host);
  const std::vector<float> want = Attend(host, reference, qkv, dout);
  const std::vector<float> got = Attend(*device->queue, *device->ops, qkv, dout);
  REQUIRE(got.size() == want.size());
  float largest = 0, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    if (const float error = std::abs(got[i] - want[i]); !(error <= worst)) worst = error;  // NaN, too
  }
  CHECK(std::isfinite(worst));
  CHECK(worst <= 5e-6f * largest);
  CHECK(largest > 1);
}

}  // namespace
}  // namespace medley
