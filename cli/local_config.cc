#include "cli/local_config.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace medley {

absl::StatusOr<v1::LocalClusterConfig> CompleteLocalCluster(v1::LocalClusterConfig config,
                                                            const std::string& directory) {
  v1::CoordinatorConfig& coordinator = *config.mutable_coordinator();
  if (coordinator.listen_address().empty()) coordinator.set_listen_address("127.0.0.1:7070");
  if (coordinator.address_file().empty()) coordinator.set_address_file(directory + "/coordinator.address");
  if (coordinator.state_directory().empty()) coordinator.set_state_directory(directory + "/state");
  if (config.agents().empty()) config.add_agents();
  std::set<std::string> names;
  for (int i = 0; i < config.agents_size(); ++i) {
    v1::AgentConfig& agent = *config.mutable_agents(i);
    if (agent.name().empty()) agent.set_name(config.agents_size() == 1 ? "local" : absl::StrCat("local-", i));
    if (!names.insert(agent.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("agents[", i, "].name: \"", agent.name(), "\" is there twice"));
    }
  }
  return config;
}

}  // namespace medley
