// What ranks tell of their devices at start.
#include "runtime/ir/collective/group_facts.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  return {EncodeGroupFacts({.device = "cpu-avx512 (1 core)", .objection = "no library"}),
          EncodeGroupFacts({.device = "cuda: NVIDIA H100 (sm_90)",
                            .library = "NCCL 2.28.3",
                            .identity = "00112233445566778899aabbccddeeff",
                            .host_reaches = false,
                            .network_reaches = true})};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  const absl::StatusOr<GroupFacts> facts = DecodeGroupFacts(std::string(TextOf(data, size)));
  if (!facts.ok()) {
    DemandRefusal(facts.status());
    return 0;
  }
  Accepted();
  const absl::StatusOr<GroupFacts> again = DecodeGroupFacts(EncodeGroupFacts(*facts));
  Demand(again.ok() && *again == *facts, "accepted facts can be told again");
  return 0;
}
