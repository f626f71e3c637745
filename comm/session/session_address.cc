#include "comm/session/session_address.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"
#include "comm/transport/sealed_bytes.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr SealKind kKind{"session address", /*magic=*/0x53594C4D, /*version=*/1,  // "MLYS"
                         kMaximumSessionAddressBytes};

struct Header {
  uint64_t attempt;
  uint32_t rank, host_bytes, endpoints, reserved;
};
static_assert(sizeof(Header) == 24);
struct WireEndpoint {
  uint8_t ip[16];
  uint16_t port;
  uint8_t is_v6, reserved;
};
static_assert(sizeof(WireEndpoint) == 20);
static_assert(kSealBytes + sizeof(Header) + kMaximumHostBytes + kMaximumEndpoints * sizeof(WireEndpoint) <=
              kMaximumSessionAddressBytes);

absl::Status Refuse(const std::string& why) { return RefuseSealed(kKind, why); }

absl::StatusOr<Endpoint> Read(const WireEndpoint& wire) {
  Endpoint endpoint;
  if (wire.is_v6 > 1 || wire.reserved != 0) return Refuse("an endpoint is of an unknown kind");
  endpoint.is_v6 = wire.is_v6 == 1;
  std::copy(std::begin(wire.ip), std::end(wire.ip), endpoint.ip.begin());
  endpoint.port = wire.port;
  const bool has_rest =
      std::any_of(endpoint.ip.begin() + 4, endpoint.ip.end(), [](uint8_t byte) { return byte != 0; });
  if (!endpoint.is_v6 && has_rest) return Refuse("an endpoint is of an unknown kind");
  if (endpoint.port == 0 || endpoint.IsWildcard()) {
    return Refuse(absl::StrCat("endpoint ", endpoint.ToString(), " is nowhere"));
  }
  return endpoint;
}

}  // namespace

std::string EncodeSessionAddress(const SessionAddress& address) {
  const Header header{address.attempt, static_cast<uint32_t>(address.rank),
                      static_cast<uint32_t>(address.host.size()),
                      static_cast<uint32_t>(address.endpoints.size()),
                      /*reserved=*/0};
  std::string body(reinterpret_cast<const char*>(&header), sizeof(header));
  body.append(address.host);
  for (const Endpoint& endpoint : address.endpoints) {
    WireEndpoint wire = {};
    std::copy(endpoint.ip.begin(), endpoint.ip.end(), wire.ip);
    wire.port = endpoint.port;
    wire.is_v6 = endpoint.is_v6;
    body.append(reinterpret_cast<const char*>(&wire), sizeof(wire));
  }
  return Seal(kKind, body);
}

absl::StatusOr<SessionAddress> DecodeSessionAddress(const std::string& bytes) {
  ASSIGN_OR_RETURN(std::string_view body, Unseal(kKind, bytes));
  Header header;
  if (body.size() < sizeof(header)) return Refuse(absl::StrCat("cut to ", bytes.size(), " bytes"));
  std::memcpy(&header, body.data(), sizeof(header));
  body.remove_prefix(sizeof(header));
  const uint64_t expected = uint64_t{header.host_bytes} + uint64_t{header.endpoints} * sizeof(WireEndpoint);
  if (body.size() != expected) {
    return Refuse(absl::StrCat(body.size(), " bytes after the header, not ", expected));
  }
  if (header.rank >= kMaximumRanks) {
    return Refuse(absl::StrCat("rank is ", header.rank, ", not in [0, ", kMaximumRanks, ")"));
  }
  if (header.host_bytes > kMaximumHostBytes) {
    return Refuse(
        absl::StrCat("the host's identity is ", header.host_bytes, " bytes, more than ", kMaximumHostBytes));
  }
  if (header.endpoints < 1 || header.endpoints > kMaximumEndpoints) {
    return Refuse(absl::StrCat(header.endpoints, " endpoints, not in [1, ", kMaximumEndpoints, "]"));
  }
  if (header.reserved != 0) return Refuse("a reserved field is set");

  SessionAddress address;
  address.attempt = header.attempt;
  address.rank = static_cast<int>(header.rank);
  address.host = std::string(body.substr(0, header.host_bytes));
  body.remove_prefix(header.host_bytes);
  for (uint32_t i = 0; i < header.endpoints; ++i) {
    WireEndpoint wire;
    std::memcpy(&wire, body.data() + i * sizeof(wire), sizeof(wire));
    ASSIGN_OR_RETURN(address.endpoints.emplace_back(), Read(wire));
  }
  return address;
}

std::vector<Endpoint> EndpointsToTry(const SessionAddress& address, const std::string& own_host) {
  std::vector<Endpoint> endpoints = address.endpoints;
  if (address.host != own_host) {
    std::erase_if(endpoints, [](const Endpoint& endpoint) { return endpoint.IsLoopback(); });
  } else {
    std::stable_partition(endpoints.begin(), endpoints.end(),
                          [](const Endpoint& one) { return one.IsLoopback(); });
  }
  return endpoints;
}

}  // namespace medley
