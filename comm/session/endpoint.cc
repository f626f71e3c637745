#include "comm/session/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace medley {

bool Endpoint::IsLoopback() const {
  if (!is_v6) return ip[0] == 127;
  static constexpr std::array<uint8_t, 16> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127};
  if (std::equal(kMapped.begin(), kMapped.begin() + 13, ip.begin())) return true;
  return ip[15] == 1 && std::all_of(ip.begin(), ip.end() - 1, [](uint8_t byte) { return byte == 0; });
}

bool Endpoint::IsWildcard() const {
  return std::all_of(ip.begin(), ip.end(), [](uint8_t byte) { return byte == 0; });
}

std::string Endpoint::ToString() const {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(is_v6 ? AF_INET6 : AF_INET, ip.data(), text, sizeof(text));
  return is_v6 ? absl::StrCat("[", text, "]:", port) : absl::StrCat(text, ":", port);
}

}  // namespace medley
