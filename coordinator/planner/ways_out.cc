#include "coordinator/planner/ways_out.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/chosen_order.h"
#include "coordinator/planner/chosen_parts.h"
#include "coordinator/planner/chosen_sharding.h"
#include "coordinator/planner/memory_shortage.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// One search: of units of so many devices, all shared alike.
struct Way {
  int degree = 1;
  std::vector<SharedUnit> units;  // none: each device is one
};

bool IsMeasured(const PlanningProblem& problem, const SharedUnit& unit) {
  for (size_t m = 0; m < unit.devices.size(); ++m) {
    if (!CostsOf(problem.devices[unit.devices[m]], problem.shape.model, unit.shares[m])) return false;
  }
  return true;
}

struct WaysOut {
  std::vector<Way> ways;
  std::string unmeasured;  // what might do if it were measured, for people
};

WaysOut FindWays(const PlanningProblem& problem, const SearchLimits& limits) {
  WaysOut found;
  const MemorySaving saving = SavingOf(problem);
  if (saving.any() && !OnDevicesOfWholeBlocks(problem).devices.empty()) found.ways.push_back({});
  for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
    bool fits = false;
    for (const std::vector<SharedUnit>& all : WaysToShare(problem, degree)) {
      if (limits.stopped()) return found;
      std::vector<SharedUnit> units = all;
      std::erase_if(units, [&](const SharedUnit& unit) { return !IsMeasured(problem, unit); });
      if (units.size() < all.size() && found.unmeasured.empty() && FitInUnits(problem, all, saving, limits)) {
        found.unmeasured =
            absl::StrCat("; it may fit in units of ", degree,
                         " devices of a host, but these have not been measured with such shares");
      }
      if (units.empty() || !FitInUnits(problem, units, saving, limits)) continue;
      fits = fits || FitInUnits(problem, units, {}, limits);
      found.ways.push_back({degree, std::move(units)});
    }
    if (fits) break;
  }
  return found;
}

// Whole devices: with their proof and bound, as far as the search goes.
absl::StatusOr<ChosenPlan> Choose(const PlanningProblem& problem, const Way& way,
                                  const SearchLimits& limits) {
  const SearchSpace space = {.saving = SavingOf(problem)};
  if (way.units.empty()) {
    const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
    Search search(whole, space, limits);
    ASSIGN_OR_RETURN(ChosenPlan chosen, search.Run());
    ChooseOrder(whole, search.best_pipelines(), limits, chosen);
    return chosen;
  }
  const UnitProblem of_units = MakeUnitProblem(problem, way.units);
  Search search(problem, of_units, space, limits);
  ASSIGN_OR_RETURN(ChosenPlan chosen, search.Run());
  if (!FitsMemory(problem, chosen.plan))
    return absl::ResourceExhaustedError("the plan of units does not fit");
  ChooseOrder(problem, search.best_pipelines(), limits, chosen);
  return chosen;
}

std::string Seconds(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.2f ms", seconds * 1e3) : absl::StrFormat("%.2f s", seconds);
}

std::string DescribeWay(int degree) {
  return degree == 1 ? "one device a unit" : absl::StrCat(degree, " devices a unit");
}

// Of the best plan of each way, the fastest being `chosen`, what the others take.
std::string DescribeOthers(const std::vector<std::pair<int, double>>& others) {
  if (others.empty()) return "";
  std::vector<std::string> texts;
  for (const auto& [degree, seconds] : others)
    texts.push_back(absl::StrCat("with ", DescribeWay(degree), " ", Seconds(seconds)));
  return absl::StrCat("; a step would take ", absl::StrJoin(texts, ", "), " instead");
}

// How far it is known that nothing is faster.
std::string DescribeExtent(const PlanningProblem& problem, int degree, bool exhausted) {
  std::string text;
  if (degree == 1) {
    text =
        exhausted
            ? "; no plan of one device a unit is predicted to be faster that recomputes units' last layers, "
              "shares the "
              "state as evenly as there is room or has layers in host memory with the fewest or most windows"
            : "; the search of such plans ended at its limit, so faster ones may have been missed";
  }
  if (MostDevicesOfHost(problem) < 2) return text;
  return absl::StrCat(text, "; units ", degree > 1 ? "of more devices, " : "",
                      "of several numbers of devices, and beside single ones were not searched");
}

// What the attempt would need that comes nearest to fitting so.
std::string DescribeNeed(const PlanningProblem& whole, const std::string& technique, MemorySaving saving) {
  Search search(whole, {.saving = saving}, {});
  const MemoryShortage shortage = search.Shortage();
  if (shortage.device_class < 0) return "";
  const DeviceCost& device = search.DeviceOf(shortage.device_class);
  const Bytes limit = device.room.memory;
  return absl::StrCat("; ", technique, shortage.bytes > 0 ? " it needs " : " it would fit, and need ",
                      FormatBytes(limit + Bytes{shortage.bytes}), " of ", DescribeLimit(device.room), " on ",
                      device.name, " for blocks ", shortage.blocks.first.value(), "-",
                      shortage.blocks.end - 1);
}

// What the units lack of a host's devices that come nearest to fitting, with all that may be saved.
std::string DescribeUnitsNeed(const PlanningProblem& problem) {
  MemoryShortage least;
  int degree_of_least = 0;
  std::string unit;
  for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
    for (const std::vector<SharedUnit>& units : WaysToShare(problem, degree)) {
      const UnitProblem of_units = MakeUnitProblem(problem, units);
      Search search(problem, of_units, {.saving = SavingOf(problem)}, {});
      const MemoryShortage shortage = search.Shortage();
      if (shortage.device_class < 0 || (degree_of_least > 0 && shortage.bytes >= least.bytes)) continue;
      least = shortage;
      degree_of_least = degree;
      unit = search.DeviceOf(shortage.device_class).name;
    }
  }
  if (degree_of_least == 0 || least.bytes <= 0) return "";
  return absl::StrCat("; with ", degree_of_least, " devices a unit, the best of those, a device of ", unit,
                      " lacks ", FormatBytes({least.bytes}));
}

// What layers in host memory would need, where a host has too little for those of all blocks but one layer on every
// device: it may be what keeps them from living there.
std::string DescribeHostNeed(const PlanningProblem& whole) {
  const ModelConfig& model = whole.shape.model;
  const Bytes needed = HomeBytes(model, WholeModel(model), model.layers);
  const DeviceCost* most = nullptr;
  for (const DeviceCost& device : whole.devices) {
    if (!CopiesAreMeasured(device)) continue;
    if (device.host_memory == Bytes{0} || device.host_memory >= needed) return "";
    if (most == nullptr || device.host_memory > most->host_memory) most = &device;
  }
  if (most == nullptr) return "";
  return absl::StrCat("; all layers would need ", FormatBytes(needed), " of the ",
                      FormatBytes(most->host_memory), " of host memory of ", most->name);
}

std::string DescribeNeeds(const PlanningProblem& problem) {
  const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
  if (whole.devices.empty()) return DescribeUnitsNeed(problem);
  const bool allowed = problem.constraints.saves_memory;
  const bool copies = std::any_of(whole.devices.begin(), whole.devices.end(), CopiesAreMeasured);
  return absl::StrCat(DescribeNeed(whole, "with recomputed layers", {.recomputes = true}),
                      DescribeNeed(whole, "with shared optimizer state", {.shards_optimizer = true}),
                      copies ? DescribeNeed(whole, "with layers in host memory", {.homes_layers = true})
                             : "; copies to and from host memory have not been measured",
                      DescribeHostNeed(whole),
                      DescribeNeed(whole, allowed ? "even with all of these" : "with all of these",
                                   {.recomputes = true, .shards_optimizer = true, .homes_layers = true}),
                      allowed ? "" : ", but none is allowed", DescribeUnitsNeed(problem));
}

}  // namespace

absl::StatusOr<ChosenPlan> ChooseWayOut(const PlanningProblem& problem, const absl::Status& shortage,
                                        const SearchLimits& limits) {
  // What may be looked for is looked for within limits of its own.
  const WaysOut found = FindWays(problem, {.stop = limits.stop});
  SearchLimits part = limits;
  const auto parts = std::max<int64_t>(1, static_cast<int64_t>(found.ways.size()));
  part.max_simulations = std::max<int64_t>(1, limits.max_simulations / parts);
  part.max_simulated_instructions = std::max<int64_t>(1, limits.max_simulated_instructions / parts);
  part.max_device_lists = std::max<int64_t>(1, limits.max_device_lists / parts);
  std::optional<ChosenPlan> best;
  int best_degree = 0;
  int64_t simulated_plans = 0;
  std::vector<std::pair<int, double>> others;
  absl::Status refusal = shortage;
  for (const Way& way : found.ways) {
    absl::StatusOr<ChosenPlan> chosen = Choose(problem, way, part);
    if (absl::IsDeadlineExceeded(chosen.status()) && !absl::IsDeadlineExceeded(refusal))
      refusal = chosen.status();
    if (!chosen.ok()) continue;
    simulated_plans += chosen->simulated_plans;
    const bool faster = !best || chosen->step_seconds < best->step_seconds;
    if (best) {
      others.push_back(faster ? std::pair(best_degree, best->step_seconds)
                              : std::pair(way.degree, chosen->step_seconds));
    }
    if (!faster) continue;
    best = *std::move(chosen);
    best_degree = way.degree;
  }
  if (!best && limits.stopped())
    return absl::CancelledError("planning was stopped before it had found a plan");
  if (!best) {
    return absl::Status(refusal.code(),
                        absl::StrCat(refusal.message(), DescribeNeeds(problem), found.unmeasured));
  }
  best->simulated_plans = simulated_plans;
  ChooseOptimizerShares(problem, *best);
  ASSIGN_OR_RETURN(const StepPrediction prediction, PredictStep(problem, best->plan));
  std::vector<std::string> techniques;
  if (best_degree > 1)
    techniques.push_back(absl::StrCat("devices of a host share blocks, ", best_degree, " a unit"));
  for (std::string& saving : DescribeSaving(problem, best->plan, prediction))
    techniques.push_back(std::move(saving));
  if (const Plan whole = WithWholeMicroBatches(best->plan); !(whole == best->plan)) {
    ASSIGN_OR_RETURN(const double whole_seconds, PredictStepSeconds(problem, whole));
    techniques.push_back(DescribeParts(best->plan, best->step_seconds, whole_seconds));
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  best->fitting = absl::StrCat(
      absl::IsDeadlineExceeded(shortage) ? "nothing was found that fits" : "nothing fits",
      " with one device a unit", problem.constraints.saves_memory ? " that keeps what backward needs" : "",
      " (", shortage.message(), "), so ", absl::StrJoin(techniques, ", and "), DescribeOthers(others),
      DescribeExtent(problem, best_degree, best->proven_optimal));
  best->proven_optimal = false;
  best->lower_bound_seconds = 0;
  return *std::move(best);
}

absl::StatusOr<ChosenPlan> ChooseSaving(const PlanningProblem& problem, const ChosenPlan& kept,
                                        std::vector<PredictedPlan>& pipelines, const SearchLimits& limits) {
  Search search(problem, {.saving = SavingOf(problem)}, limits);
  ASSIGN_OR_RETURN(ChosenPlan found, search.RunFrom(kept, pipelines));
  pipelines = search.best_pipelines();
  found.simulated_plans += kept.simulated_plans;
  if (found.step_seconds >= kept.step_seconds) {
    // It may be as fast with fewer devices, which is no reason to save memory.
    found.plan = kept.plan;
    found.step_seconds = kept.step_seconds;
    found.proven_optimal = found.proven_optimal && kept.proven_optimal;
    found.lower_bound_seconds = std::min(found.lower_bound_seconds, kept.lower_bound_seconds);
    return found;
  }
  ChooseOptimizerShares(problem, found);
  ASSIGN_OR_RETURN(const StepPrediction prediction, PredictStep(problem, found.plan));
  found.fitting =
      absl::StrCat("the best plan found that saves no memory takes ", Seconds(kept.step_seconds),
                   " a step, so ", absl::StrJoin(DescribeSaving(problem, found.plan, prediction), ", and "),
                   DescribeExtent(problem, 1, found.proven_optimal && kept.proven_optimal));
  found.proven_optimal = false;
  found.lower_bound_seconds = 0;
  return found;
}

}  // namespace medley
