#include "comm/communicator/session_devices.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace medley {
namespace {

using Names = std::set<std::string>;

// The interface of that name, or those of the RDMA device's hardware.
Names StandsFor(const std::string& name, const std::string& rdma_devices) {
  Names found = {name};
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::path(rdma_devices) / name.substr(0, name.find(':')) / "device" / "net";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    found.insert(entry.path().filename().string());
  }
  return found;
}

}  // namespace

absl::StatusOr<std::string> SessionDevices(const std::string& network_devices, const std::string& allowed,
                                           const std::vector<InterfaceAddress>& addressed,
                                           const std::string& rdma_devices) {
  Names chosen;
  const auto choose = [&](const std::string& name) {
    const Names names = StandsFor(name, rdma_devices);
    for (const InterfaceAddress& one : addressed) {
      if (names.count(one.device) > 0) chosen.insert(one.device);
    }
  };
  for (const std::string& name : Names(absl::StrSplit(network_devices, ',', absl::SkipEmpty()))) {
    if (absl::StrContains(name, ":")) {
      choose(name);
    } else {
      chosen.insert(name);
    }
  }
  if (!chosen.empty() || allowed.empty()) return absl::StrJoin(chosen, ",");
  for (const std::string& name : Names(absl::StrSplit(allowed, ','))) choose(name);
  if (!chosen.empty()) return absl::StrJoin(chosen, ",");
  return absl::InvalidArgumentError(absl::StrCat(
      "network_devices is \"", allowed,
      "\", which has no network interface with an address that the members could recognise each other over; "
      "name one as well"));
}

}  // namespace medley
