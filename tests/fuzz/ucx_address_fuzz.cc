// Packed addresses of UCX transports, from peers by way of the control plane.
#include "comm/ucx/ucx_address.h"
#include "tests/fuzz/checksum.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

void Try(const std::string& bytes) {
  const absl::StatusOr<UcxAddress> address = DecodeAddress(bytes);
  if (!address.ok()) return DemandRefusal(address.status());
  Accepted();
  Demand(EncodeAddress(*address) == bytes, "an accepted address is encoded as it came");
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  UcxAddress address{
      .attempt = 7, .rank = 3, .host = "host-1", .any = std::string(300, 'a'), .network = "tcp"};
  std::vector<std::string> seeds = {EncodeAddress(address)};
  address = {.attempt = ~uint64_t{0}, .rank = 4095, .any = std::string(1, '\0')};
  seeds.push_back(EncodeAddress(address));
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = medley::TextOf(data, size);
  medley::Try(std::string(bytes));
  medley::Try(medley::WithChecksum(bytes));
  return 0;
}
