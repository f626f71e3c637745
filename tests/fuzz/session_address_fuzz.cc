// Addresses of sessions, from peers by way of the control plane.
#include "comm/session/session_address.h"
#include "tests/fuzz/checksum.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

void Try(const std::string& bytes) {
  const absl::StatusOr<SessionAddress> address = DecodeSessionAddress(bytes);
  if (!address.ok()) return DemandRefusal(address.status());
  Accepted();
  Demand(EncodeSessionAddress(*address) == bytes, "an accepted address is encoded as it came");
  Demand(!address->endpoints.empty() && address->endpoints.size() <= kMaximumEndpoints,
         "endpoints are bounded");
  Demand(EndpointsToTry(*address, address->host).size() == address->endpoints.size(),
         "on its own host every endpoint is tried");
  Demand(EndpointsToTry(*address, address->host + "x").size() <= address->endpoints.size(),
         "no endpoint is made up");
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  SessionAddress address{.attempt = 7, .rank = 3, .host = "host-1"};
  Endpoint endpoint;
  endpoint.port = 4711;
  endpoint.ip[0] = 127;
  endpoint.ip[3] = 1;
  address.endpoints = {endpoint};
  std::vector<std::string> seeds = {EncodeSessionAddress(address)};
  endpoint.is_v6 = true;
  endpoint.ip[15] = 9;
  address.endpoints.assign(5, endpoint);
  address.host.clear();
  seeds.push_back(EncodeSessionAddress(address));
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = medley::TextOf(data, size);
  medley::Try(std::string(bytes));
  medley::Try(medley::WithChecksum(bytes));
  return 0;
}
