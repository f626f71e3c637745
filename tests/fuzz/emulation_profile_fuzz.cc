// Profiles of emulated devices as people write them.
#include "kernels/emulated/emulation_profile.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  const std::string plain =
      "kind: Test-1\nmemory_bytes: 64GiB\nmatmul_f32_flops_per_second: 1e12\nmemory_bytes_per_second: 1e11\n"
      "host_link_bytes_per_second: 1e9\nop_overhead_seconds: 1e-5\n";
  return {
      plain,
      plain +
          "matmul_bf16_flops_per_second: 2e12\nattention_efficiency: 0.5\nlayers:\n"
          "  - {family: llama, hidden: 2048, feed_forward: 5632, heads: 32, sequence: 512, micro_batch: 1,\n"
          "     precision: bf16, forward_ms: 1.362, backward_ms: 5.701}\n"
          "  - {family: gpt2, hidden: 64, feed_forward: 256, heads: 4, sequence: 32, micro_batch: 2,\n"
          "     precision: f32, forward_ms: 1, backward_ms: 2}\n"};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  const absl::StatusOr<EmulationProfile> profile =
      ParseEmulationProfile(std::string(TextOf(data, size)), "profile.yaml");
  if (!profile.ok()) {
    DemandRefusal(profile.status());
    Demand(profile.status().message().substr(0, 12) == "profile.yaml", "a refusal names the file");
    return 0;
  }
  Accepted();
  Demand(profile->memory.value > 0, "there is memory");
  Demand(profile->matmul_f32_flops_per_second > 0 && profile->memory_bytes_per_second > 0 &&
             profile->host_link_bytes_per_second > 0 && profile->op_overhead_seconds >= 0,
         "rates are positive");
  Demand(profile->digest.size() == 8, "the digest has eight digits");
  return 0;
}
