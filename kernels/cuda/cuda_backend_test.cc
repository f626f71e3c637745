#include "kernels/cuda/cuda_backend.h"

#include <catch2/catch.hpp>
#include <iostream>

#include "kernels/cuda/cuda_variant.h"

namespace medley {
namespace {

DeviceDescription Describe(const std::string& variant) {
  return {.name = "cuda0", .backend = "cuda", .variant = variant, .memory_limit = MiB(64)};
}

TEST_CASE("a machine without a GPU says why, the same when asked as when opened") {
  const Backend backend = CudaBackend();
  const absl::Status objection = backend.objection(Describe(""));
  const auto device = backend.open(Describe(""));
  CHECK(device.status() == objection);
  if (device.ok()) return;
  std::cout << "notice: no CUDA device: " << objection.message() << std::endl;
  CHECK(absl::IsUnavailable(objection));
  // It names what is missing: the toolkit, the driver, or the GPU.
  CHECK_THAT(std::string(objection.message()),
             Catch::Contains("toolkit") || Catch::Contains("NVIDIA driver"));
}

TEST_CASE("a variant is a GPU's number and what differs from the default") {
  CHECK(ParseCudaVariant("")->ordinal == 0);
  CHECK(ParseCudaVariant("3")->ordinal == 3);
  CHECK(ParseCudaVariant("3")->f32_matmul == CudaVariant::F32Matmul::kExact);
  CHECK(ParseCudaVariant("0:tf32")->f32_matmul == CudaVariant::F32Matmul::kTf32);
  CHECK(ParseCudaVariant("0:tf32")->attention == CudaVariant::Attention::kCudnnFirst);
  CHECK(ParseCudaVariant("1:no-cudnn:tf32")->attention == CudaVariant::Attention::kOwnKernels);
  CHECK(ParseCudaVariant("1:no-cudnn:tf32")->f32_matmul == CudaVariant::F32Matmul::kTf32);
}

TEST_CASE("an unknown variant is refused with what there is, GPU or not") {
  const auto text = GENERATE(values<std::string>({"amx", "-1", "0:", ":tf32", "0:bf16", "0 tf32", "1.5"}));
  CAPTURE(text);
  const auto device = CudaBackend().open(Describe(text));
  CHECK(absl::IsInvalidArgument(device.status()));
  CHECK_THAT(std::string(device.status().message()),
             Catch::Contains("\"" + text + "\"") && Catch::Contains(":tf32"));
  CHECK(CudaBackend().objection(Describe(text)) == device.status());
}

}  // namespace
}  // namespace medley
