#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// `config` with what `medley up` fills in, for a cluster whose files lie in `directory`: one agent if there
// is none, names ("local", or "local-0", "local-1", ... in the order of the agents), coordinator.address_file
// and state_directory, listen_address 127.0.0.1:7070. coordinator_address of the agents
// stays empty until the coordinator has an address.
// InvalidArgument: two agents have the same name.
absl::StatusOr<v1::LocalClusterConfig> CompleteLocalCluster(v1::LocalClusterConfig config,
                                                            const std::string& directory);

}  // namespace medley
