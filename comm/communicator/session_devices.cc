#include "comm/communicator/session_devices.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace medley {

absl::StatusOr<std::string> SessionDevices(const std::string& network_devices,
                                           const std::string& rdma_devices) {
  if (network_devices.empty()) return network_devices;
  std::set<std::string> interfaces;
  std::string without;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(network_devices, ','))) {
    const size_t colon = name.find(':');
    if (colon == std::string::npos) {
      interfaces.insert(name);
      continue;
    }
    bool has_one = false;
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::path(rdma_devices) / name.substr(0, colon) / "device" / "net";
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      interfaces.insert(entry.path().filename().string());
      has_one = true;
    }
    if (!has_one) without = name;
  }
  if (interfaces.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "network_devices is \"", network_devices, "\", and \"", without,
        "\" has no network interface that the members could recognise each other over; name one as well"));
  }
  return absl::StrJoin(interfaces, ",");
}

}  // namespace medley
