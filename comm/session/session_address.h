#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/session/endpoint.h"

namespace medley {

// What a rank tells the others so that they can reach its session.
struct SessionAddress {
  uint64_t attempt = 0;
  int rank = 0;
  std::string host;                 // HostIdentity() of its process; at most 512 bytes
  std::vector<Endpoint> endpoints;  // at least one, at most kMaximumEndpoints; no wildcards
};

// As bytes for the wire, sealed (sealed_bytes.h): lengths and the fields; at most
// kMaximumSessionAddressBytes.
std::string EncodeSessionAddress(const SessionAddress& address);

// The inverse, of bytes that nobody has checked. (The checksum is no signature: a peer still has to prove
// itself.) InvalidArgument: none of ours, another version, cut, too long, a checksum that differs, or a field
// out of range; says which.
absl::StatusOr<SessionAddress> DecodeSessionAddress(const std::string& bytes);

inline constexpr size_t kMaximumEndpoints = 32;
inline constexpr size_t kMaximumHostBytes = 512;
inline constexpr size_t kMaximumSessionAddressBytes = 4 << 10;

// Where to try to reach `address`, best first: loopback only on the same host, since elsewhere it means
// another one.
std::vector<Endpoint> EndpointsToTry(const SessionAddress& address, const std::string& own_host);

}  // namespace medley
