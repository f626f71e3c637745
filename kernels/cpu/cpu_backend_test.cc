#include "kernels/cpu/cpu_backend.h"

#include <dirent.h>
#include <omp.h>
#include <xmmintrin.h>

#include <catch2/catch.hpp>
#include <thread>

#include "kernels/cpu/cpu_variant.h"
#include "runtime/base/allowed_cores.h"

namespace medley {
namespace {

DeviceDescription Describe(const std::string& variant, std::vector<int> cores) {
  return {.name = "cpu0",
          .backend = "cpu",
          .variant = variant,
          .cores = std::move(cores),
          .memory_limit = MiB(64)};
}

int Threads() {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

TEST_CASE("what open would refuse, objection says first, with the reason") {
  const Backend backend = CpuBackend();
  const auto refused = [&](const DeviceDescription& description, const std::string& why) {
    const absl::Status status = backend.open(description).status();
    CHECK_THAT(std::string(status.message()), Catch::Contains(why));
    CHECK(backend.objection(description) == status);
    return status.code();
  };
  CHECK(refused(Describe("avx1024", {0}), "avx1024") == absl::StatusCode::kInvalidArgument);
  CHECK(refused(Describe("sse41", {}), "empty") == absl::StatusCode::kInvalidArgument);
  CHECK(refused(Describe("sse41", {0, 0}), "twice") == absl::StatusCode::kInvalidArgument);
  CHECK(refused(Describe("sse41", {100000}), "100000") == absl::StatusCode::kInvalidArgument);
  if (const std::string why = CpuVariantObjection(CpuVariant::kAmx); !why.empty())
    CHECK(refused(Describe("amx", {0}), why) == absl::StatusCode::kUnimplemented);
}

TEST_CASE("the variants are listed best first, and those listed can be opened") {
  const std::vector<std::string> variants = CpuVariants();
  REQUIRE_FALSE(variants.empty());
  CHECK(DefaultCpuVariant() == variants.front());
  CHECK(variants.back() == "sse41");
  for (const std::string& variant : variants) CHECK(CpuBackend().objection(Describe(variant, {0})).ok());
}

// The last case: it binds this process.
TEST_CASE("a device of one core binds the process, starts no thread, and is the only one") {
  absl::StatusOr<Device> device = CpuBackend().open(Describe("sse41", {0}));
  REQUIRE(device.ok());
  CHECK(device->computes == ComputedPrecisions{});
  CHECK(device->queue->name() == "cpu-sse41 (1 core)");
  std::vector<int> cores;
  REQUIRE(GetAllowedCores(0, cores) == 0);
  CHECK(cores == std::vector<int>{0});
  CHECK(absl::IsFailedPrecondition(CpuBackend().open(Describe("avx2", {0})).status()));
  CHECK(CpuBackend().open(Describe("sse41", {0})).ok());
  auto buffer = device->queue->Allocate(MiB(12));
  REQUIRE(buffer.ok());
  const int64_t size = 512, elements = size * size;
  const Slice a{buffer->get(), 0, elements}, b = {buffer->get(), elements * 4, elements};
  const Slice c = {buffer->get(), elements * 8, elements};
  const unsigned control = _mm_getcsr();
  const int threads = Threads();
  // Also from a thread that OpenMP has not met, with its own idea of how many threads to use.
  std::thread([&] {
    omp_set_num_threads(4);
    CHECK(device->ops->Matmul({.a = a, .b = b, .c = c, .m = size, .n = size, .k = size}).ok());
    CHECK(device->ops->GeluForward({a, b, elements}).ok());
    CHECK(Threads() == threads + 1);  // this one
  }).join();
  CHECK(_mm_getcsr() == control);
}

TEST_CASE("subnormal probabilities do not make a matmul crawl, and the caller's rounding mode is as it was") {
  absl::StatusOr<Device> device = CpuBackend().open(Describe("sse41", {0}));
  REQUIRE(device.ok());
  auto buffer = device->queue->Allocate({12});
  REQUIRE(buffer.ok());
  float* values = reinterpret_cast<float*>((*buffer)->host_address());
  values[0] = 1e-40f;
  values[1] = 1.0f;
  values[2] = 7.0f;
  const unsigned control = _mm_getcsr();
  REQUIRE(device->ops
              ->Matmul({.a = {buffer->get(), 0, 1},
                        .b = {buffer->get(), 4, 1},
                        .c = {buffer->get(), 8, 1},
                        .m = 1,
                        .n = 1,
                        .k = 1})
              .ok());
  CHECK(values[2] == 0.0f);  // taken as zero
  CHECK(_mm_getcsr() == control);
}

}  // namespace
}  // namespace medley
