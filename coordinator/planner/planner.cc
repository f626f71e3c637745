#include "coordinator/planner/planner.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/chosen_order.h"
#include "coordinator/planner/chosen_parts.h"
#include "coordinator/planner/chosen_saving.h"
#include "coordinator/planner/chosen_sharding.h"
#include "coordinator/planner/classes/class_fit.h"
#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/class_shortage.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/planner/techniques/stage_buffers.h"
#include "coordinator/planner/ways_out.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Of the limits, what searching plans that save memory may use at least.
constexpr int64_t kLeastPartForSaving = 4;

// Sums of the same times in another order are the same bound, up to that factor.
constexpr double kSameBound = 1 + 1e-9;

// Whether some device of a long enough pipeline could have what forwards keep in host memory.
bool MayStoreActivations(const PlanningProblem& problem) {
  return problem.devices.size() >= kFewestFromEndToStore &&
         std::any_of(problem.devices.begin(), problem.devices.end(), CopiesAreMeasured);
}

bool KnowsShares(const PlanningProblem& problem) {
  return std::any_of(problem.devices.begin(), problem.devices.end(),
                     [](const DeviceCost& device) { return !device.shares.empty(); });
}

absl::StatusOr<ChosenPlan> ChooseWithoutSharing(const PlanningProblem& problem, const SearchLimits& limits) {
  const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
  if (whole.devices.empty()) {
    return absl::ResourceExhaustedError("no device was measured with whole blocks");
  }
  Search search(whole, SearchSpace{}, limits);
  ASSIGN_OR_RETURN(ChosenPlan chosen, search.Run());
  std::vector<PredictedPlan> pipelines = search.best_pipelines();
  // What saves memory takes longer than the same plan would without, so nothing is gained where all would fit.
  if (problem.constraints.saves_memory && search.memory_binds()) {
    SearchLimits left = limits;
    left.max_simulated_instructions =
        std::max(limits.max_simulated_instructions / kLeastPartForSaving,
                 limits.max_simulated_instructions - search.SpentInstructions());
    left.max_simulations = std::max(limits.max_simulations / kLeastPartForSaving,
                                    limits.max_simulations - chosen.simulated_plans);
    ASSIGN_OR_RETURN(chosen, ChooseSaving(whole, chosen, pipelines, left));
    if (MayStoreActivations(whole)) {
      // What plans would take that do is not known.
      chosen.proven_optimal = false;
      chosen.lower_bound_seconds = 0;
    }
  }
  if (whole.devices.size() < problem.devices.size() || KnowsShares(problem)) {
    // What the others, or units of several devices, would do is not known.
    chosen.proven_optimal = false;
    chosen.lower_bound_seconds = 0;
  }
  ChooseOrder(whole, pipelines, limits, chosen);
  ChooseSharding(whole, search.best_replicas(), limits, chosen);
  return chosen;
}

absl::StatusOr<ChosenPlan> ChooseByClasses(const PlanningProblem& problem, const SearchLimits& limits) {
  ASSIGN_OR_RETURN(PlanByClass found, PlanByClasses(problem, limits.stop));
  const int devices = static_cast<int>(DevicesOf(found.plan).size());
  if (!problem.constraints.Allow(devices, PricePerHour(problem, found.plan)))
    return absl::ResourceExhaustedError("planning by classes found none that the constraints allow");
  const bool is_1f1b = found.plan.schedule == Schedule::kOneForwardOneBackward;
  ChosenPlan chosen{.plan = std::move(found.plan),
                    .step_seconds = found.step_seconds,
                    .lower_bound_seconds = is_1f1b ? found.lower_bound_seconds : found.busy_seconds,
                    .bound_under_1f1b_alone = is_1f1b && problem.constraints.schedules.size() > 1 &&
                                              found.lower_bound_seconds > found.busy_seconds,
                    .simulated_plans = found.predicted_plans,
                    .fitting = std::move(found.summary)};
  chosen.orders = std::move(found.orders);
  ChooseParts(problem, chosen);
  const bool by_speed = ChooseOptimizerShares(problem, chosen);
  if (ChooseShardedParameters(problem, limits, chosen) || by_speed) {
    chosen.lower_bound_seconds = 0;
    chosen.bound_under_1f1b_alone = false;
  }
  StoreFewestLayers(problem, chosen);
  return chosen;
}

// Says of a plan that was made by classes what it does to fit.
absl::Status TellSaving(const PlanningProblem& problem, ChosenPlan& chosen) {
  ASSIGN_OR_RETURN(const StepPrediction prediction, PredictStep(problem, chosen.plan));
  for (const std::string& saving : DescribeSaving(problem, chosen.plan, prediction))
    absl::StrAppend(&chosen.fitting, "; ", saving);
  return absl::OkStatus();
}

// Of few devices planning by classes takes less than a second, and knows what the search does not: units of several devices where
// all fits without, rows that are cut and activations on the host, and orders of their own for all kinds of routes. What is proven
// without either needs no look. Where the search found nothing, any plan is faster.
void TakeByClassesIfFaster(const PlanningProblem& problem, const SearchLimits& limits,
                           absl::StatusOr<ChosenPlan>& chosen) {
  const bool nothing_fits = absl::IsResourceExhausted(chosen.status());
  if (!chosen.ok() && !nothing_fits && !absl::IsDeadlineExceeded(chosen.status())) return;
  if (chosen.ok() && chosen->proven_optimal && !problem.constraints.synthesised_orders) return;
  if (limits.stopped() || !CanPlanByClasses(problem)) return;
  if (!nothing_fits && OnDevicesOfWholeBlocks(problem).devices.size() < problem.devices.size()) return;
  absl::StatusOr<ChosenPlan> by_classes = ChooseByClasses(problem, limits);
  if (!by_classes.ok()) return;
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, by_classes->plan);
  if (!seconds.ok()) return;
  by_classes->step_seconds = *seconds;
  ChooseRanges(problem, limits, *by_classes);
  if (chosen.ok() && by_classes->step_seconds >= (1 - kLeastGain) * chosen->step_seconds) return;
  if (!TellSaving(problem, *by_classes).ok()) return;
  if (nothing_fits)
    by_classes->fitting = absl::StrCat(
        "no other plan was found that fits, so planned by classes of devices: ", by_classes->fitting);
  if (chosen.ok()) by_classes->simulated_plans += chosen->simulated_plans;
  if (by_classes->plan.schedule == Schedule::kOneForwardOneBackward)
    by_classes->lower_bound_seconds =
        std::min(by_classes->lower_bound_seconds, chosen.ok() ? chosen->lower_bound_seconds : 0);
  chosen = std::move(by_classes);
}

bool IsPlannedByClasses(const PlanningProblem& problem) {
  return problem.devices.size() > kMostSearchedDevices && CanPlanByClasses(problem);
}

absl::StatusOr<ChosenPlan> ChooseByAnyWay(const PlanningProblem& problem, const SearchLimits& limits) {
  if (IsPlannedByClasses(problem)) {
    absl::StatusOr<ChosenPlan> chosen = ChooseByClasses(problem, limits);
    // Of limits to devices NothingAllowed tells.
    if (absl::IsResourceExhausted(chosen.status()) && !problem.constraints.limit_devices())
      return absl::ResourceExhaustedError(WhyNoneByClasses(problem, limits.stop));
    if (chosen.ok()) RETURN_IF_ERROR(TellSaving(problem, *chosen));
    return chosen;
  }
  absl::StatusOr<ChosenPlan> chosen = ChooseWithoutSharing(problem, limits);
  if (absl::IsResourceExhausted(chosen.status()) || absl::IsDeadlineExceeded(chosen.status())) {
    chosen = ChooseWayOut(problem, chosen.status(), limits);
    if (chosen.ok()) ChooseShardedParameters(problem, limits, *chosen);
  }
  if (chosen.ok()) ChooseRanges(problem, limits, *chosen);
  TakeByClassesIfFaster(problem, limits, chosen);
  if (absl::IsResourceExhausted(chosen.status()) && !problem.constraints.limit_devices() &&
      CanPlanByClasses(problem)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(chosen.status().message(), RemediesByClasses(problem, limits.stop)));
  }
  return chosen;
}

// Of one unit of each class: others are alike, and planning by classes shares evenly alone.
std::vector<WantedShare> SharesOfClassesToMeasure(const PlanningProblem& problem,
                                                  const SearchLimits& limits) {
  const bool saves = problem.constraints.saves_memory;
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  const int most_degree = MostOnHost(classes);
  for (int degree = 2; degree <= most_degree && !limits.stopped(); ++degree) {
    const bool fits_as_it_is = FitsByClasses(problem, degree, /*saves=*/false, limits.stop);
    if (!fits_as_it_is && !(saves && FitsByClasses(problem, degree, saves, limits.stop))) continue;
    std::vector<WantedShare> wanted;
    for (const DeviceClass& of : classes) {
      if (of.most_on_host < degree) continue;
      for (const ModelShare& share :
           UnmeasuredShares(problem.shape.model, problem.devices[of.first()], degree))
        wanted.push_back({of.first(), share});
    }
    if (!wanted.empty() || fits_as_it_is) return wanted;
  }
  return {};
}

// What is short is not the memory alone.
absl::Status NothingAllowed(const PlanConstraints& constraints) {
  std::vector<std::string> limits;
  if (constraints.most_price_per_hour > 0)
    limits.push_back(
        absl::StrCat("constraints.most_price_per_hour allows, ", constraints.most_price_per_hour));
  if (constraints.most_devices > 0)
    limits.push_back(absl::StrCat("constraints.most_devices allows, ", constraints.most_devices));
  return absl::ResourceExhaustedError(absl::StrCat("no plan fits on what ", absl::StrJoin(limits, ", and ")));
}

}  // namespace

absl::StatusOr<ChosenPlan> ChoosePlan(const PlanningProblem& problem, const SearchLimits& limits) {
  RETURN_IF_ERROR(CheckProblem(problem));
  for (const int size : problem.micro_batch_sizes) {
    if (DividesBatch(problem, size)) continue;
    return absl::InvalidArgumentError(absl::StrCat("micro_batch_sizes: ", size,
                                                   "; must divide the global batch of ",
                                                   problem.shape.global_batch_sequences));
  }
  absl::StatusOr<ChosenPlan> chosen = ChooseByAnyWay(problem, limits);
  if (absl::IsResourceExhausted(chosen.status()) && problem.constraints.limit_devices())
    return NothingAllowed(problem.constraints);
  if (!chosen.ok()) return chosen;
  // Planning by classes compares estimates. What limits and other plans are held against is what is reported.
  if (IsPlannedByClasses(problem)) {
    ASSIGN_OR_RETURN(chosen->step_seconds, PredictStepSeconds(problem, chosen->plan));
  }
  // Which holds in any order.
  if (const double work_seconds = WorkSeconds(problem);
      chosen->lower_bound_seconds <= kSameBound * work_seconds) {
    chosen->lower_bound_seconds = work_seconds;
    chosen->bound_under_1f1b_alone = false;
  }
  chosen->lower_bound_seconds = std::min(chosen->lower_bound_seconds, chosen->step_seconds);
  return chosen;
}

bool FitsWithoutSharing(const PlanningProblem& problem, const SearchLimits& limits) {
  if (IsPlannedByClasses(problem)) return FitsByClasses(problem, /*degree=*/1, /*saves=*/false, limits.stop);
  const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
  return !whole.devices.empty() && Search(whole, SearchSpace{}, limits).Fits();
}

bool FitInUnits(const PlanningProblem& problem, const std::vector<SharedUnit>& units, MemorySaving saving,
                const SearchLimits& limits) {
  const UnitProblem of_units = MakeUnitProblem(problem, units);
  return Search(problem, of_units, {.saving = saving}, limits).Fits();
}

std::vector<WantedShare> SharesToMeasure(const PlanningProblem& problem, const SearchLimits& limits) {
  if (IsPlannedByClasses(problem)) return SharesOfClassesToMeasure(problem, limits);
  const MemorySaving saving = SavingOf(problem);
  bool any_fits = false;
  for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
    bool fits = false;
    for (const std::vector<SharedUnit>& units : WaysToShare(problem, degree)) {
      if (limits.stopped()) return {};
      const bool fits_as_it_is = FitInUnits(problem, units, {}, limits);
      if (!fits_as_it_is && !(saving.any() && FitInUnits(problem, units, saving, limits))) continue;
      any_fits = true;
      fits = fits || fits_as_it_is;
      std::vector<WantedShare> wanted;
      for (const SharedUnit& unit : units) {
        for (size_t m = 0; m < unit.devices.size(); ++m) {
          if (!CostsOf(problem.devices[unit.devices[m]], problem.shape.model, unit.shares[m]))
            wanted.push_back({unit.devices[m], AtOrigin(unit.shares[m])});
        }
      }
      if (!wanted.empty()) return wanted;
    }
    if (fits) return {};
  }
  if (any_fits || !saving.any() || !CanPlanByClasses(problem)) return {};
  return SharesOfClassesToMeasure(problem, limits);
}

}  // namespace medley
