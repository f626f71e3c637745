#include "coordinator/planner/problem_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/status_macros.h"
#include "runtime/ir/link/all_reduce_times.h"

namespace medley {
namespace {

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::Status CheckNumber(const std::string& field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ": ", value, "; must be finite and not negative"));
}

absl::Status CheckAtLeastOne(const std::string& field, int value) {
  if (value >= 1) return absl::OkStatus();
  return Invalid(absl::StrCat(field, ": ", value, "; must be at least 1"));
}

absl::Status CheckShape(const TrainingShape& shape) {
  RETURN_IF_ERROR(CheckAtLeastOne("shape.model.layers", shape.model.layers));
  RETURN_IF_ERROR(CheckAtLeastOne("shape.model.hidden", shape.model.hidden));
  RETURN_IF_ERROR(CheckAtLeastOne("shape.sequence", shape.sequence));
  return CheckAtLeastOne("shape.global_batch_sequences", shape.global_batch_sequences);
}

absl::Status CheckSizes(const PlanningProblem& problem) {
  if (problem.micro_batch_sizes.empty())
    return Invalid("micro_batch_sizes: there are none; at least one is needed");
  int previous = 0;
  for (const int size : problem.micro_batch_sizes) {
    if (size <= previous) {
      return Invalid(
          absl::StrCat("micro_batch_sizes: ", size, " after ", previous, "; must be ascending from 1"));
    }
    previous = size;
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const PlanningProblem& problem, const std::string& field,
                        const std::vector<BlockTimes>& all) {
  if (all.size() != problem.micro_batch_sizes.size()) {
    return Invalid(absl::StrCat(field, ".times: ", all.size(), " entries; must be one for each of the ",
                                problem.micro_batch_sizes.size(), " micro_batch_sizes"));
  }
  for (size_t z = 0; z < all.size(); ++z) {
    const BlockTimes& times = all[z];
    for (const PassTimes& pass : {times.embedding, times.layer, times.head}) {
      RETURN_IF_ERROR(
          CheckNumber(absl::StrCat(field, ".times[", z, "] forward_seconds"), pass.forward_seconds));
      RETURN_IF_ERROR(
          CheckNumber(absl::StrCat(field, ".times[", z, "] backward_seconds"), pass.backward_seconds));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const PlanningProblem& problem, size_t d) {
  const DeviceCost& device = problem.devices[d];
  const std::string field = absl::StrCat("devices[", d, "]");
  // Without times of whole blocks it takes part in units of several devices.
  if (!device.times.empty() || device.shares.empty())
    RETURN_IF_ERROR(CheckTimes(problem, field, device.times));
  for (size_t s = 0; s < device.shares.size(); ++s)
    RETURN_IF_ERROR(CheckTimes(problem, absl::StrCat(field, ".shares[", s, "]"), device.shares[s].times));
  RETURN_IF_ERROR(CheckNumber(field + ".update_seconds_per_parameter", device.update_seconds_per_parameter));
  RETURN_IF_ERROR(CheckNumber(field + ".norm_seconds_per_parameter", device.norm_seconds_per_parameter));
  for (const auto& [name, slowdown] : {std::pair(".shared_slowdown", device.shared_slowdown),
                                       std::pair(".shared_update_slowdown", device.shared_update_slowdown)}) {
    RETURN_IF_ERROR(CheckNumber(field + name, slowdown));
    if (slowdown < 1) return Invalid(absl::StrCat(field, name, ": ", slowdown, "; must be at least 1"));
    if (device.shared_with < 0 || (device.shared_with == 0 && slowdown > 1)) {
      return Invalid(
          absl::StrCat(field, ".shared_with: ", device.shared_with, "; must be at least ",
                       slowdown > 1 ? absl::StrCat("1 where ", name + 1, " is more than 1") : "0"));
    }
  }
  RETURN_IF_ERROR(CheckNumber(field + ".price_per_hour", device.price_per_hour));
  return CheckNumber(field + ".copy_bytes_per_parameter", device.room.copy_bytes_per_parameter);
}

absl::Status CheckLinks(const PlanningProblem& problem) {
  const DeviceLinks& links = problem.links;
  if (links.devices() != static_cast<int>(problem.devices.size())) {
    return Invalid(
        absl::StrCat("links: of ", links.devices(), " devices; must be of all ", problem.devices.size()));
  }
  for (size_t i = 0; i < links.each().size(); ++i) {
    const LinkCost& link = links.each()[i];
    for (const auto& [name, status] : {std::pair("transfer", CheckLinkModel(link.transfer)),
                                       std::pair("exchange", CheckLinkModel(link.exchange)),
                                       std::pair("all_reduce", CheckAllReduceTimes(link.all_reduce))}) {
      if (status.ok()) continue;
      const size_t a = i / links.ends() % links.ends(), b = i % links.ends();
      return Invalid(absl::StrCat("links[", a, "][", b, "].", name, status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProblem(const PlanningProblem& problem) {
  RETURN_IF_ERROR(CheckShape(problem.shape));
  RETURN_IF_ERROR(CheckSizes(problem));
  if (problem.devices.empty()) return Invalid("devices: there are none; at least one is needed");
  std::set<std::string> names;
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    RETURN_IF_ERROR(CheckDevice(problem, d));
    if (!names.insert(problem.devices[d].name).second) {
      return Invalid(absl::StrCat("devices[", d, "].name: \"", problem.devices[d].name, "\" is there twice"));
    }
  }
  RETURN_IF_ERROR(CheckLinks(problem));
  if (problem.wire_bytes_per_element != 4 && problem.wire_bytes_per_element != 2) {
    return Invalid(
        absl::StrCat("wire_bytes_per_element: ", problem.wire_bytes_per_element, "; must be 4 or 2"));
  }
  const PlanConstraints& constraints = problem.constraints;
  if (constraints.schedules.empty())
    return Invalid("constraints.schedules: there are none; at least one is needed");
  for (const Schedule schedule : constraints.schedules) {
    if (IsPlanned(schedule)) continue;
    return Invalid(absl::StrCat("constraints.schedules: ", NameOf(schedule),
                                " is run where a job's plan names it; 1f1b and gpipe are chosen from"));
  }
  if (constraints.max_routes < 0 || constraints.max_stages < 0) {
    return Invalid("constraints.max_routes, max_stages: must not be negative; 0 is any number");
  }
  RETURN_IF_ERROR(CheckNumber("constraints.most_price_per_hour", constraints.most_price_per_hour));
  if (constraints.most_devices < 0) {
    return Invalid(absl::StrCat("constraints.most_devices: ", constraints.most_devices,
                                "; must not be negative; 0 is any number"));
  }
  return absl::OkStatus();
}

PlanningProblem OnDevicesOfWholeBlocks(const PlanningProblem& problem) {
  const auto is_whole = [](const DeviceCost& device) { return !device.times.empty(); };
  if (std::all_of(problem.devices.begin(), problem.devices.end(), is_whole)) return problem;
  std::vector<int> whole;
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    if (is_whole(problem.devices[d])) whole.push_back(static_cast<int>(d));
  }
  return OnDevices(problem, whole);
}

}  // namespace medley
