#include "cli/goal_options.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/time_option.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// 0 would mean that there is no limit.
absl::StatusOr<double> Positive(const std::string& option, const std::string& text) {
  double value;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value) && value > 0) return value;
  return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": must be a number above 0"));
}

}  // namespace

void AddGoalOptions(CLI::App& command, GoalOptions& options) {
  command
      .add_option(
          "--objective", options.objective,
          "throughput: the fastest plan; cost: the cheapest for the job's steps; default: as the job says")
      ->check(CLI::IsMember({"throughput", "cost"}));
  command.add_option("--deadline", options.deadline,
                     "that the job's steps may take, as in 90m, 8h or 2d; slower plans are refused");
  command.add_option("--budget-per-hour", options.budget_per_hour,
                     "that all devices in use may cost an hour, by their price_per_hour");
  command.add_option("--most-devices", options.most_devices, "that the plan may use");
}

absl::StatusOr<std::vector<YamlOverride>> OverridesOf(const GoalOptions& options) {
  std::vector<YamlOverride> overrides;
  if (!options.objective.empty())
    overrides.push_back({"objective", options.objective, absl::StrCat("--objective ", options.objective)});
  if (!options.deadline.empty()) {
    ASSIGN_OR_RETURN(const double seconds, ParseLength("--deadline", options.deadline));
    overrides.push_back({"constraints.deadline_seconds", absl::StrCat(seconds),
                         absl::StrCat("--deadline ", options.deadline)});
  }
  if (!options.budget_per_hour.empty()) {
    RETURN_IF_ERROR(Positive("--budget-per-hour", options.budget_per_hour).status());
    overrides.push_back({"constraints.most_price_per_hour", options.budget_per_hour,
                         absl::StrCat("--budget-per-hour ", options.budget_per_hour)});
  }
  if (!options.most_devices.empty()) {
    uint32_t devices;
    if (!absl::SimpleAtoi(options.most_devices, &devices) || devices == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--most-devices ", options.most_devices, ": must be a whole number above 0"));
    }
    overrides.push_back({"constraints.most_devices", options.most_devices,
                         absl::StrCat("--most-devices ", options.most_devices)});
  }
  return overrides;
}

}  // namespace medley
