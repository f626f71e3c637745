#include "runtime/base/loopback.h"

#include <arpa/inet.h>

namespace medley {

bool IsLoopbackHost(const std::string& host) {
  in_addr address = {};
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

std::string HostOfAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool has_port = colon != std::string::npos && (address.empty() || address.back() != ']');
  return has_port ? address.substr(0, colon) : address;
}

}  // namespace medley
