#include "comm/topology/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/base/first_line.h"

namespace medley {
namespace {

namespace fs = std::filesystem;

// Ascending; none where `folder` cannot be read.
std::vector<std::string> Entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Interface ReadInterface(const fs::path& folder, bool has_address) {
  std::error_code error;
  Interface found{.name = folder.filename()};
  for (const std::string& entry : Entries(folder)) {
    if (absl::StartsWith(entry, "lower_")) found.lower.push_back(entry.substr(6));
  }
  int flags = 0, megabits = 0;
  if (!absl::SimpleHexAtoi(FirstLine(folder / "flags"), &flags)) flags = 0;
  if (absl::SimpleAtoi(FirstLine(folder / "speed"), &megabits) && megabits > 0) {
    found.bytes_per_second = megabits * 1e6 / 8;
  }
  found.is_loopback = (flags & IFF_LOOPBACK) != 0;
  // Not operstate, which loopback and some drivers leave at "unknown".
  found.is_up = has_address && FirstLine(folder / "carrier") != "0";
  found.is_virtual = !found.is_loopback && !fs::exists(folder / "device", error);
  return found;
}

FabricPort ReadFabricPort(const fs::path& folder, const std::string& device, int port) {
  FabricPort found{.device = device, .port = port};
  // "400 Gb/sec (4X NDR)", "4: ACTIVE"
  const std::vector<std::string> rate = absl::StrSplit(FirstLine(folder / "rate"), ' ');
  double gigabits = 0;
  if (absl::SimpleAtod(rate.front(), &gigabits)) found.bytes_per_second = gigabits * 1e9 / 8;
  found.is_up = absl::StartsWith(FirstLine(folder / "state"), "4:");
  return found;
}

}  // namespace

Networks ReadNetworks(const std::string& sys, const std::vector<AddressedInterface>& addressed) {
  std::map<std::string, Interface> by_name;
  for (const AddressedInterface& one : addressed) {
    by_name[one.name] = {.name = one.name, .is_up = true, .is_loopback = one.is_loopback};
  }
  for (const std::string& name : Entries(fs::path(sys) / "class/net")) {
    std::error_code error;
    const fs::path folder = fs::path(sys) / "class/net" / name;
    if (fs::is_directory(folder, error)) by_name[name] = ReadInterface(folder, by_name.count(name) > 0);
  }
  Networks found;
  for (auto& [name, interface] : by_name) found.interfaces.push_back(std::move(interface));
  for (const std::string& device : Entries(fs::path(sys) / "class/infiniband")) {
    const fs::path ports = fs::path(sys) / "class/infiniband" / device / "ports";
    for (const std::string& name : Entries(ports)) {
      int port = 0;
      if (absl::SimpleAtoi(name, &port))
        found.fabric_ports.push_back(ReadFabricPort(ports / name, device, port));
    }
  }
  return found;
}

std::vector<AddressedInterface> AddressedInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::map<std::string, AddressedInterface> by_name;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    const bool routes =
        family == AF_INET ||
        (family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr));
    if (routes) by_name[entry->ifa_name] = {entry->ifa_name, (entry->ifa_flags & IFF_LOOPBACK) != 0};
  }
  freeifaddrs(list);
  std::vector<AddressedInterface> found;
  for (auto& [name, one] : by_name) found.push_back(std::move(one));
  return found;
}

}  // namespace medley
