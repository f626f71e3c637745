#include "coordinator/planner/least_change.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// Exchanged devices are alike, so that only sums in another order may tell them apart.
constexpr double kRounding = 1e-9;

// What a rank of a plan has of the model.
struct Held {
  const Unit* unit = nullptr;
  int member = 0;
};

std::map<std::string, Held> HeldByDevice(const Plan& plan) {
  std::map<std::string, Held> held;
  for (const Unit& unit : plan.units) {
    for (size_t m = 0; m < unit.devices.size(); ++m) held[unit.devices[m]] = {&unit, static_cast<int>(m)};
  }
  return held;
}

bool SameShare(const Held& a, const Held& b) {
  return a.unit->devices.size() == b.unit->devices.size() && a.member == b.member &&
         a.unit->shares == b.unit->shares;
}

// Blocks that either has, of the same share.
int CommonBlocks(const Held& a, const Held& b) {
  if (!SameShare(a, b)) return 0;
  int common = 0;
  for (const BlockRange& x : a.unit->chunks) {
    for (const BlockRange& y : b.unit->chunks)
      common += std::max(0, std::min(x.end, y.end) - std::max(x.first, y.first));
  }
  return common;
}

// The seconds of `plan`, which was made for other devices or other times; none: it does not do here.
std::optional<double> SecondsIfAllowed(const PlanningProblem& problem, const Plan& plan) {
  for (const std::string& device : DevicesOf(plan))
    if (FindDevice(problem, device) == nullptr) return std::nullopt;
  if (!CheckPlanForm(plan, problem.shape).empty()) return std::nullopt;
  const PlanConstraints& constraints = problem.constraints;
  if (!constraints.Allow(static_cast<int>(DevicesOf(plan).size()), PricePerHour(problem, plan)))
    return std::nullopt;
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
  if (!seconds.ok() || !FitsMemory(problem, plan)) return std::nullopt;
  return *seconds;
}

std::map<std::string, int> ClassByDevice(const PlanningProblem& problem) {
  std::map<std::string, int> class_by_device;
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  for (size_t c = 0; c < classes.size(); ++c) {
    for (const std::vector<int>& host : classes[c].hosts) {
      for (const int d : host) class_by_device[problem.devices[d].name] = static_cast<int>(c);
    }
  }
  return class_by_device;
}

// `plan` with devices exchanged within their classes: those first that have most in common with what they held.
Plan Relabelled(const PlanningProblem& problem, const Plan& running, const Plan& plan) {
  const std::map<std::string, int> class_by_device = ClassByDevice(problem);
  const std::map<std::string, Held> before = HeldByDevice(running), after = HeldByDevice(plan);
  std::vector<std::tuple<int, std::string, std::string>>
      wishes;  // negative blocks, place's device now, device
  for (const auto& [place, wanted] : after) {
    for (const auto& [device, held] : before) {
      const auto found = class_by_device.find(device);
      if (found == class_by_device.end() || found->second != class_by_device.at(place)) continue;
      if (const int common = CommonBlocks(wanted, held); common > 0)
        wishes.push_back({-common, place, device});
    }
  }
  // Of equal ones a device stays where it is.
  std::stable_sort(wishes.begin(), wishes.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const auto& wish) {
      return std::pair(std::get<0>(wish), std::get<1>(wish) != std::get<2>(wish));
    };
    return rank(a) < rank(b);
  });
  std::map<std::string, std::string> device_at;
  std::set<std::string> given;
  for (const auto& [common, place, device] : wishes) {
    if (device_at.count(place) > 0 || given.count(device) > 0) continue;
    device_at[place] = device;
    given.insert(device);
  }
  // Who has no wish stays, or takes what is left of its class.
  for (const auto& [place, held] : after) {
    if (device_at.count(place) == 0 && given.insert(place).second) device_at[place] = place;
  }
  for (const auto& [place, held] : after) {
    if (device_at.count(place) > 0) continue;
    for (const DeviceCost& device : problem.devices) {
      if (class_by_device.at(device.name) != class_by_device.at(place) || !given.insert(device.name).second)
        continue;
      device_at[place] = device.name;
      break;
    }
  }
  Plan relabelled = plan;
  for (Unit& unit : relabelled.units)
    for (std::string& device : unit.devices) device = device_at.at(device);
  return relabelled;
}

// What is known of `chosen` becomes what is known of the running plan in its place.
void KeepRunning(const PlanningProblem& problem, const Plan& running, double seconds, ChosenPlan& chosen) {
  const bool is_listed = running.schedule == Schedule::kListed;
  const bool was_listed = chosen.plan.schedule == Schedule::kListed;
  const bool is_as_fast = std::abs(seconds - chosen.step_seconds) <= kRounding * chosen.step_seconds;
  // Proofs are of named schedules, and what is faster than a proven plan is of no kind that was searched.
  chosen.proven_optimal = chosen.proven_optimal && is_as_fast && !is_listed;
  if (is_listed && !was_listed) {
    chosen.lower_bound_seconds = std::min(chosen.lower_bound_seconds, WorkSeconds(problem));
    chosen.bound_under_1f1b_alone = false;
  }
  chosen.lower_bound_seconds = std::min(chosen.lower_bound_seconds, seconds);
  // What was said of the other plan's order holds of one that is as fast without.
  if (is_listed) {
    chosen.orders =
        "the passes keep the order that they had; nothing is proven of plans with orders of their own";
  } else if (!chosen.orders.empty() && (was_listed || !is_as_fast)) {
    chosen.orders = "the passes keep their named schedule; what is proven is proven of named schedules";
  }
  chosen.plan = running;
  chosen.step_seconds = seconds;
}

}  // namespace

int DevicesThatKeep(const Plan& before, const Plan& after) {
  const std::map<std::string, Held> held = HeldByDevice(before);
  int kept = 0;
  for (const auto& [device, has] : HeldByDevice(after)) {
    const auto had = held.find(device);
    kept += had != held.end() && SameShare(had->second, has) && had->second.unit->chunks == has.unit->chunks;
  }
  return kept;
}

ChosenPlan WithLeastChange(const PlanningProblem& problem, const Plan& running, ChosenPlan chosen) {
  if (running.units.empty() || running == chosen.plan) return chosen;
  const std::optional<double> stays = SecondsIfAllowed(problem, running);
  if (stays && *stays <= chosen.step_seconds * (1 + kAsFast)) {
    KeepRunning(problem, running, *stays, chosen);
    chosen.fitting = absl::StrJoin(DescribeSaving(problem, running, *PredictStep(problem, running)), "; ");
    return chosen;
  }
  if (problem.devices.size() > kMostRelabelled) return chosen;
  Plan relabelled = Relabelled(problem, running, chosen.plan);
  if (DevicesThatKeep(running, relabelled) <= DevicesThatKeep(running, chosen.plan)) return chosen;
  const std::optional<double> seconds = SecondsIfAllowed(problem, relabelled);
  if (seconds && *seconds <= chosen.step_seconds * (1 + kRounding)) {
    chosen.plan = std::move(relabelled);
    chosen.step_seconds = *seconds;
  }
  return chosen;
}

}  // namespace medley
