#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace medley {

// Where a TCP listener is: an IP address and a port.
struct Endpoint {
  bool is_v6 = false;
  std::array<uint8_t, 16> ip = {};  // network order; of IPv4 the first four, the others zero
  uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
  bool IsLoopback() const;
  // 0.0.0.0 or ::, which stand for every address of a host.
  bool IsWildcard() const;
  // "10.0.0.1:4123", "[fd00::2]:4123"
  std::string ToString() const;
};

}  // namespace medley
