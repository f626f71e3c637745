#include "coordinator/planner/planner.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/orders.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "coordinator/planner/sharing.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Puts the passes of the best of `plans` in an order of their own where that is allowed and pays.
void ChooseOrder(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                 ChosenPlan& chosen) {
  if (!problem.constraints.synthesised_orders || plans.empty()) return;
  const PredictedPlan named = {chosen.plan, chosen.step_seconds};
  std::optional<PredictedPlan> best = BestSynthesised(problem, plans, named);
  if (!best) {
    chosen.orders = DescribeNoOrder(plans.size());
    return;
  }
  chosen.orders = DescribeOrder(problem, *best, named, chosen.proven_optimal);
  chosen.plan = std::move(best->plan);
  chosen.step_seconds = best->step_seconds;
  chosen.proven_optimal = false;
  chosen.lower_bound_seconds = 0;
}

absl::StatusOr<ChosenPlan> ChooseWithoutSharing(const PlanningProblem& problem, const SearchLimits& limits) {
  const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
  if (whole.devices.empty()) {
    return absl::ResourceExhaustedError("no device was measured with whole blocks");
  }
  Search search(whole, SearchSpace{}, limits);
  ASSIGN_OR_RETURN(ChosenPlan chosen, search.Run());
  if (whole.devices.size() < problem.devices.size()) {
    // What the others would do is not known.
    chosen.proven_optimal = false;
    chosen.lower_bound_seconds = 0;
  }
  ChooseOrder(whole, search.best_pipelines(), chosen);
  return chosen;
}

// Of the units that share the width in one way; none if no plan fits, or not all shares have been measured.
absl::StatusOr<ChosenPlan> ChooseOfUnits(const PlanningProblem& problem, const std::vector<SharedUnit>& units,
                                         const SearchLimits& limits) {
  const UnitProblem of_units = MakeUnitProblem(problem, units);
  Search search(problem, of_units, limits);
  ASSIGN_OR_RETURN(ChosenPlan chosen, search.Run());
  if (!FitsMemory(problem, chosen.plan))
    return absl::ResourceExhaustedError("the plan of units does not fit");
  ChooseOrder(problem, search.best_pipelines(), chosen);
  return chosen;
}

std::vector<SharedUnit> Measured(const PlanningProblem& problem, std::vector<SharedUnit> units) {
  std::erase_if(units, [&](const SharedUnit& unit) {
    for (size_t m = 0; m < unit.devices.size(); ++m) {
      if (!CostsOf(problem.devices[unit.devices[m]], problem.shape.model, unit.shares[m])) return true;
    }
    return false;
  });
  return units;
}

bool Fit(const PlanningProblem& problem, const std::vector<SharedUnit>& units) {
  const UnitProblem of_units = MakeUnitProblem(problem, units);
  return Search(problem, of_units, {}).Fits();
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
  absl::StatusOr<ChosenPlan> alone = ChooseWithoutSharing(problem, limits);
  if (!absl::IsResourceExhausted(alone.status())) return alone;
  std::string unmeasured;
  for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
    absl::StatusOr<ChosenPlan> best = absl::ResourceExhaustedError("");
    int64_t simulated_plans = 0;
    for (const std::vector<SharedUnit>& all : WaysToShare(problem, degree)) {
      const std::vector<SharedUnit> units = Measured(problem, all);
      if (units.size() < all.size() && unmeasured.empty() && Fit(problem, all)) {
        unmeasured = absl::StrCat("; it may fit in units of ", degree,
                                  " devices of a host, but these have not been measured with such shares");
      }
      if (units.empty()) continue;
      absl::StatusOr<ChosenPlan> chosen = ChooseOfUnits(problem, units, limits);
      if (!chosen.ok()) continue;
      simulated_plans += chosen->simulated_plans;
      if (!best.ok() || chosen->step_seconds < best->step_seconds) best = std::move(chosen);
    }
    if (!best.ok()) continue;
    best->simulated_plans = simulated_plans;
    best->sharing = absl::StrCat(
        "nothing fits with one device a unit (", alone.status().message(),
        "), so devices of a host share blocks, ", degree,
        " a unit, the fewest with which a plan was found; units of more devices, of several numbers of them, "
        "and beside single devices were not searched");
    return best;
  }
  return absl::ResourceExhaustedError(absl::StrCat(alone.status().message(), unmeasured));
}

bool FitsWithoutSharing(const PlanningProblem& problem) {
  const PlanningProblem whole = OnDevicesOfWholeBlocks(problem);
  return !whole.devices.empty() && Search(whole, SearchSpace{}, {}).Fits();
}

std::vector<WantedShare> SharesToMeasure(const PlanningProblem& problem) {
  for (int degree = 2; degree <= MostDevicesOfHost(problem); ++degree) {
    bool fits = false;
    for (const std::vector<SharedUnit>& units : WaysToShare(problem, degree)) {
      if (!Fit(problem, units)) continue;
      fits = true;
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
  return {};
}

}  // namespace medley
