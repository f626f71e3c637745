#include "comm/session/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/session/session_address.h"

namespace medley {
namespace {

std::optional<Endpoint> Read(const sockaddr* address) {
  Endpoint endpoint;
  if (address->sa_family == AF_INET) {
    std::memcpy(endpoint.ip.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return endpoint;
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&ip)) return std::nullopt;
    endpoint.is_v6 = true;
    std::memcpy(endpoint.ip.data(), &ip, 16);
    return endpoint;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<InterfaceAddress>> ReadInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return absl::UnavailableError(absl::StrCat("reading network devices: ", std::strerror(errno)));
  }
  std::vector<InterfaceAddress> interfaces;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    if (const auto endpoint = Read(one->ifa_addr)) interfaces.push_back({one->ifa_name, *endpoint});
  }
  freeifaddrs(first);
  return interfaces;
}

absl::StatusOr<std::vector<Endpoint>> SelectEndpoints(const std::vector<InterfaceAddress>& interfaces,
                                                      const std::string& network_devices) {
  const std::vector<std::string> names = absl::StrSplit(network_devices, ',');
  for (const std::string& name : names) {
    const auto is_it = [&](const InterfaceAddress& one) { return one.device == name; };
    if (!network_devices.empty() && std::none_of(interfaces.begin(), interfaces.end(), is_it)) {
      return absl::InvalidArgumentError(
          absl::StrCat("network_devices is \"", network_devices, "\", and \"", name,
                       "\" is no network device here that is up and has an address"));
    }
  }
  std::vector<Endpoint> endpoints;
  for (const InterfaceAddress& one : interfaces) {
    const bool is_wanted = network_devices.empty() || std::count(names.begin(), names.end(), one.device) > 0;
    const bool is_new = std::count(endpoints.begin(), endpoints.end(), one.endpoint) == 0;
    if (is_wanted && is_new && endpoints.size() < kMaximumEndpoints) endpoints.push_back(one.endpoint);
  }
  if (endpoints.empty()) return absl::InvalidArgumentError("no network device here is up and has an address");
  return endpoints;
}

}  // namespace medley
