#include "comm/session/session_address.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/transport/message_tag.h"

namespace medley {
namespace {

// Little-endian, like every machine that this runs on.
constexpr uint32_t kMagic = 0x53594C4D;  // "MLYS"
constexpr uint32_t kVersion = 1;
struct Header {
  uint32_t magic, version;
  uint64_t epoch;
  uint32_t rank, host_bytes, endpoints, reserved;
};
static_assert(sizeof(Header) == 32);
struct WireEndpoint {
  uint8_t ip[16];
  uint16_t port;
  uint8_t is_v6, reserved;
};
static_assert(sizeof(WireEndpoint) == 20);
using Checksum = uint64_t;
static_assert(sizeof(Header) + kMaximumHostBytes + kMaximumEndpoints * sizeof(WireEndpoint) +
                  sizeof(Checksum) <=
              kMaximumSessionAddressBytes);

absl::Status Refuse(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("session address: ", why));
}

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
  const Header header{kMagic,
                      kVersion,
                      address.epoch,
                      static_cast<uint32_t>(address.rank),
                      static_cast<uint32_t>(address.host.size()),
                      static_cast<uint32_t>(address.endpoints.size()),
                      /*reserved=*/0};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(address.host);
  for (const Endpoint& endpoint : address.endpoints) {
    WireEndpoint wire = {};
    std::copy(endpoint.ip.begin(), endpoint.ip.end(), wire.ip);
    wire.port = endpoint.port;
    wire.is_v6 = endpoint.is_v6;
    bytes.append(reinterpret_cast<const char*>(&wire), sizeof(wire));
  }
  const Checksum sum = XXH64(bytes.data(), bytes.size(), /*seed=*/0);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return bytes;
}

absl::StatusOr<SessionAddress> DecodeSessionAddress(const std::string& bytes) {
  if (bytes.size() > kMaximumSessionAddressBytes) {
    return Refuse(absl::StrCat(bytes.size(), " bytes, more than ", kMaximumSessionAddressBytes));
  }
  if (bytes.size() < sizeof(Header) + sizeof(Checksum))
    return Refuse(absl::StrCat("cut to ", bytes.size(), " bytes"));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return Refuse("does not begin as one");
  if (header.version != kVersion)
    return Refuse(absl::StrCat("version is ", header.version, ", not ", kVersion));
  const uint64_t expected = sizeof(Header) + uint64_t{header.host_bytes} +
                            uint64_t{header.endpoints} * sizeof(WireEndpoint) + sizeof(Checksum);
  if (bytes.size() != expected) return Refuse(absl::StrCat(bytes.size(), " bytes, not ", expected));
  Checksum sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  if (sum != XXH64(bytes.data(), bytes.size() - sizeof(sum), /*seed=*/0))
    return Refuse("the checksum differs");
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
  address.epoch = header.epoch;
  address.rank = static_cast<int>(header.rank);
  address.host = bytes.substr(sizeof(Header), header.host_bytes);
  for (uint32_t i = 0; i < header.endpoints; ++i) {
    WireEndpoint wire;
    std::memcpy(&wire, bytes.data() + sizeof(Header) + header.host_bytes + i * sizeof(wire), sizeof(wire));
    absl::StatusOr<Endpoint> endpoint = Read(wire);
    if (!endpoint.ok()) return endpoint.status();
    address.endpoints.push_back(*endpoint);
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
