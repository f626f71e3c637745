#include "coordinator/planner/least_change.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/unit_order.h"
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

// Devices of a class that hold the same blocks of the same share.
struct Holders {
  int device_class = 0;
  Held held;
  std::vector<std::string> devices;  // ascending
};

// Those of a plan; without units of which a device has no class any more: the ranks of others are matched in one order, so that units stay
// together.
std::vector<Holders> HoldersOf(const Plan& plan, const std::map<std::string, int>& class_by_device) {
  std::vector<Holders> all;
  for (const auto& [device, held] : HeldByDevice(plan)) {
    const auto found = class_by_device.find(device);
    const bool is_whole = std::ranges::all_of(
        held.unit->devices, [&](const std::string& of_unit) { return class_by_device.contains(of_unit); });
    if (!is_whole) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&, &held = held](const Holders& of) {
      return of.device_class == found->second && SameShare(of.held, held) &&
             of.held.unit->chunks == held.unit->chunks;
    });
    Holders& holders = same != all.end() ? *same : all.emplace_back(Holders{found->second, held, {}});
    holders.devices.push_back(device);
  }
  return all;
}

// Which device takes each place of a plan, which is known by its device in that plan.
class Places {
 public:
  bool IsFree(const std::string& place) const { return device_at_.count(place) == 0; }
  void Give(const std::string& place, const std::string& device) {
    if (IsFree(place) && given_.insert(device).second) device_at_[place] = device;
  }
  // The free places of some in their order to the devices of some that are left.
  void GiveInOrder(const std::vector<std::string>& places, const std::vector<std::string>& devices) {
    auto device = devices.begin();
    for (const std::string& place : places) {
      if (!IsFree(place)) continue;
      while (device != devices.end() && given_.count(*device) > 0) ++device;
      if (device == devices.end()) return;
      Give(place, *device);
    }
  }
  const std::string& DeviceAt(const std::string& place) const { return device_at_.at(place); }

 private:
  std::map<std::string, std::string> device_at_;  // by place
  std::set<std::string> given_;
};

// `plan` with devices exchanged within their classes: those first that have most in common with what they held.
Plan Relabelled(const PlanningProblem& problem, const Plan& running, const Plan& plan) {
  const std::map<std::string, int> class_by_device = ClassByDevice(problem);
  const std::vector<Holders> before = HoldersOf(running, class_by_device),
                             after = HoldersOf(plan, class_by_device);
  struct Pair {
    int common_blocks;
    const Holders *wanted, *had;
  };
  std::vector<Pair> pairs;
  for (const Holders& wanted : after) {
    for (const Holders& had : before) {
      const int common = wanted.device_class == had.device_class ? CommonBlocks(wanted.held, had.held) : 0;
      if (common > 0) pairs.push_back({common, &wanted, &had});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.common_blocks > b.common_blocks; });
  Places places;
  for (auto pair = pairs.begin(); pair != pairs.end();) {
    const auto end = std::find_if(
        pair, pairs.end(), [&](const Pair& other) { return other.common_blocks < pair->common_blocks; });
    // Of equal ones a device stays where it is.
    for (auto of = pair; of != end; ++of) {
      std::vector<std::string> stay;
      std::set_intersection(of->wanted->devices.begin(), of->wanted->devices.end(), of->had->devices.begin(),
                            of->had->devices.end(), std::back_inserter(stay));
      for (const std::string& device : stay) places.Give(device, device);
    }
    for (; pair != end; ++pair) places.GiveInOrder(pair->wanted->devices, pair->had->devices);
  }
  // Who has nothing in common with any that is left stays, or takes what is left of its class.
  std::map<int, std::vector<std::string>> of_class;
  for (const DeviceCost& device : problem.devices)
    of_class[class_by_device.at(device.name)].push_back(device.name);
  for (const Holders& holders : after) {
    for (const std::string& place : holders.devices) places.Give(place, place);
  }
  for (const Holders& holders : after) places.GiveInOrder(holders.devices, of_class[holders.device_class]);
  Plan relabelled = plan;
  for (Unit& unit : relabelled.units)
    for (std::string& device : unit.devices) device = places.DeviceAt(device);
  return WithUnitsByHost(problem, std::move(relabelled));
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
