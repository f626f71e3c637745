#include "agent/daemon/advertised_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/address.h"

namespace medley {

absl::Status CompleteAdvertisedAddress(v1::AgentConfig& config) {
  const bool is_given = !config.advertise_address().empty();
  if (is_given) {
    ASSIGN_OR_RETURN(*config.mutable_advertise_address(),
                     CompleteAddress("advertise_address", config.advertise_address(), 0, AnyPort::kAllowed));
  }
  const std::string& reached = is_given ? config.advertise_address() : config.listen_address();
  if (!absl::StartsWith(reached, "0.0.0.0:") && !absl::StartsWith(reached, "[::]:")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      is_given ? "advertise_address" : "advertise_address: is empty, and listen_address", ": \"", reached,
      "\" is every address of this machine; say in advertise_address by which name or address others reach "
      "it"));
}

std::string AdvertisedAddress(const v1::AgentConfig& config, const std::string& address) {
  const std::string& given = config.advertise_address();
  if (given.empty()) return address;
  if (!absl::EndsWith(given, ":0")) return given;
  return absl::StrCat(given.substr(0, given.rfind(':')), address.substr(address.rfind(':')));
}

}  // namespace medley
