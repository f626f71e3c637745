#pragma once
#include <string>

#include "absl/status/status.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// How others reach this agent. Completes `advertise_address` of a configuration whose listen_address is
// complete: one without a port gets port 0, which stands for the one that is listened at.
// InvalidArgument: it is none; or others would be told every address of this machine.
absl::Status CompleteAdvertisedAddress(v1::AgentConfig& config);

// Of such a configuration, the "host:port" that others are told of an agent that listens at `address`.
std::string AdvertisedAddress(const v1::AgentConfig& config, const std::string& address);

}  // namespace medley
