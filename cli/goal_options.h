#pragma once
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "runtime/wire/yaml_message.h"

namespace medley {

// What a plan is chosen for and may cost, as options say it; empty: as the job's spec says.
struct GoalOptions {
  std::string objective, deadline, budget_per_hour, most_devices;
};

// --objective, --deadline, --budget-per-hour and --most-devices. `options` must outlive `command`.
void AddGoalOptions(CLI::App& command, GoalOptions& options);

// What they change of the job's spec. InvalidArgument "--OPTION VALUE: ...": what it must be.
absl::StatusOr<std::vector<YamlOverride>> OverridesOf(const GoalOptions& options);

}  // namespace medley
