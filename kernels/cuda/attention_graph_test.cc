#include "kernels/cuda/attention_graph.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "tests/skipped.h"

// cuDNN's compiler leaves threads behind in libraries that it has closed; the leak sanitizer, which stops
// every thread to look at its stack, dies of them. Nobody else calls this.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }

namespace medley {
namespace {

// An H100 or A100, as cuDNN describes it. What it compiles for depends on no GPU of this machine.
std::string PropertiesOf(int compute_capability) {
  return R"({"deviceName":"GPU","cudaDeviceId":0,"driverVer":13000,"deviceVer":)" +
         std::to_string(compute_capability) +
         R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536)"
         R"(,"multiProcessorCount":108,"warpSize":32,"maxSharedMemoryPerBlock":49152)"
         R"(,"maxSharedMemoryPerBlockOptin":166912,"reservedSharedMemoryPerBlock":1024)"
         R"(,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048)"
         R"(,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85000000000)"
         R"(,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040})";
}

// cuDNN, or null: then the test counts as skipped. It compiles only beside a driver; the toolkit's stand-in
// answers to its name, and refuses to load what was compiled.
const CudnnLibrary* Cudnn() {
  if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr && dlopen(MEDLEY_STUB_DRIVER, RTLD_NOW) == nullptr) {
    Skipped("cuDNN's graphs", "there is neither a driver nor the toolkit's stand-in");
    return nullptr;
  }
  const auto library = CudnnLibrary::Get();
  if (!library.ok()) Skipped("cuDNN's graphs", std::string(library.status().message()));
  return library.ok() ? *library : nullptr;
}

// That cuDNN takes the graph and has compiled kernels for it; without a GPU it gets no further than to
// loading them.
void CheckCompiles(const absl::StatusOr<CudnnPlan>& plan) {
  INFO(plan.status().ToString());
  CHECK((plan.ok() || absl::StrContains(plan.status().message(), "cuLibraryLoadData")));
}

TEST_CASE(
    "cuDNN has engines for attention of both models, forward and backward, the same bits from run to run") {
  const CudnnLibrary* library = Cudnn();
  if (library == nullptr) return;
  const std::string text = PropertiesOf(GENERATE(800, 900));
  CAPTURE(text);
  auto properties = CudnnDescriptor::Create(*library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  REQUIRE(properties.ok());
  REQUIRE(properties
              ->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                    static_cast<int64_t>(text.size()), text.data())
              .ok());
  if (!properties->Finalize("properties").ok()) {
    Skipped("cuDNN's graphs", "this version describes devices otherwise");
    return;
  }
  const CudnnTarget target{.properties = &*properties};
  const AttentionShape gpt2{2, 1024, 12, 12, 64}, llama{1, 2048, 32, 8, 64};
  CheckCompiles(CompileAttentionForward(*library, target, gpt2));
  CheckCompiles(CompileAttentionBackward(*library, target, llama));
}

TEST_CASE("what cuDNN cannot do is unimplemented, with its words") {
  const CudnnLibrary* library = Cudnn();
  if (library == nullptr) return;
  const AttentionShape odd{1, 64, 2, 2, 7};  // rows of 14 bytes: no engine loads those
  const auto plan = CompileAttentionForward(*library, {}, odd);
  CHECK_FALSE(plan.ok());
  CHECK(plan.status().message().size() > 10);
}

}  // namespace
}  // namespace medley
