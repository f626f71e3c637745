#include "coordinator/planner/goal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/least_change.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The cheapest plan is looked for until it is known to this ratio, by so many plannings at most.
constexpr double kCloseEnough = 1.001, kCloseEnoughOfMany = 1.05;
constexpr int kMostPlannings = 12;
// Of plans that cost the same up to that factor the fastest is wanted: nobody waits twice as long for a thousandth of the price.
constexpr double kSameCost = 1.01;

std::string Duration(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.3g s", seconds);
  if (seconds < 2 * 3600) return absl::StrFormat("%.4g min", seconds / 60);
  return absl::StrFormat("%.4g h", seconds / 3600);
}

std::string Price(double price) { return absl::StrFormat("%.6g", price); }

int DeviceCount(const ChosenPlan& chosen) { return static_cast<int>(DevicesOf(chosen.plan).size()); }

absl::Status CheckPrices(const PlanGoal& goal, const PlanningProblem& problem) {
  const bool any = std::any_of(problem.devices.begin(), problem.devices.end(),
                               [](const DeviceCost& device) { return device.price_per_hour > 0; });
  if (any) return absl::OkStatus();
  const double most = problem.constraints.most_price_per_hour;
  if (goal.objective != Objective::kCost && most == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      goal.objective == Objective::kCost ? "objective: cost"
                                         : absl::StrCat("constraints.most_price_per_hour: ", Price(most)),
      "; no device has a price_per_hour, so no plan is cheaper than another"));
}

// The price of the cheapest plan that is found below that of `known`, and above what `fails`.
double CheapestPrice(PlanningProblem problem, const ChosenPlan& known, double fails,
                     const SearchLimits& limits) {
  double cheapest = PricePerHour(problem, known.plan);
  const double close_enough =
      problem.devices.size() > kMostSearchedDevices ? kCloseEnoughOfMany : kCloseEnough;
  // A plan that costs less than any device with a price has none of them, and would not have failed.
  double least = cheapest;
  for (const DeviceCost& device : problem.devices)
    if (device.price_per_hour > 0) least = std::min(least, device.price_per_hour);
  fails = std::max(fails, least / close_enough);
  for (int i = 0; i < kMostPlannings && cheapest > fails * close_enough && !limits.stopped(); ++i) {
    problem.constraints.most_price_per_hour = std::sqrt(fails * cheapest);
    const absl::StatusOr<ChosenPlan> cheaper = ChoosePlan(problem, limits);
    if (cheaper.ok()) {
      cheapest = PricePerHour(problem, cheaper->plan);
    } else {
      fails = problem.constraints.most_price_per_hour;
    }
  }
  return cheapest;
}

int FewestDevices(PlanningProblem problem, const ChosenPlan& known, int fails, const SearchLimits& limits) {
  int fewest = DeviceCount(known);
  while (fewest > fails + 1 && !limits.stopped()) {
    problem.constraints.most_devices = (fails + fewest) / 2;
    const absl::StatusOr<ChosenPlan> fewer = ChoosePlan(problem, limits);
    if (fewer.ok()) {
      fewest = DeviceCount(*fewer);
    } else {
      fails = problem.constraints.most_devices;
    }
  }
  return fewest;
}

// Why nothing fits that the constraints allow: which of them is in the way, and what there is without it.
// `refusal` where planning without them ends at a limit, so that this is not known.
absl::Status WhyNothing(const absl::Status& refusal, const PlanningProblem& problem,
                        const SearchLimits& limits) {
  const double most_price = problem.constraints.most_price_per_hour;
  const int most_devices = problem.constraints.most_devices;
  const std::string price_given = absl::StrCat("constraints.most_price_per_hour: ", Price(most_price)),
                    devices_given = absl::StrCat("constraints.most_devices: ", most_devices);
  PlanningProblem wider = problem;
  wider.constraints.most_price_per_hour = 0;
  if (most_price > 0) {
    const absl::StatusOr<ChosenPlan> found = ChoosePlan(wider, limits);
    if (found.ok()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(price_given, "; nothing fits for so little",
                       most_devices > 0 ? absl::StrCat(" with ", devices_given) : "",
                       ", the cheapest plan that was found costs ",
                       Price(CheapestPrice(wider, *found, most_price, limits)), " an hour"));
    }
    if (absl::IsDeadlineExceeded(found.status())) return refusal;
  }
  wider.constraints = problem.constraints;
  wider.constraints.most_devices = 0;
  if (most_devices > 0) {
    const absl::StatusOr<ChosenPlan> found = ChoosePlan(wider, limits);
    if (found.ok()) {
      const int fewest = FewestDevices(wider, *found, most_devices, limits);
      return absl::ResourceExhaustedError(
          absl::StrCat(devices_given, "; nothing fits on so few",
                       most_price > 0 ? absl::StrCat(" with ", price_given) : "",
                       ", the smallest plan that was found has ", fewest));
    }
    if (absl::IsDeadlineExceeded(found.status())) return refusal;
  }
  wider.constraints.most_price_per_hour = 0;
  const absl::StatusOr<ChosenPlan> found = ChoosePlan(wider, limits);
  if (absl::IsDeadlineExceeded(found.status())) return refusal;
  RETURN_IF_ERROR(found.status());
  return absl::ResourceExhaustedError(absl::StrCat(
      price_given, ", ", devices_given, "; nothing fits with either, the fastest plan without them has ",
      DeviceCount(*found), " devices and costs ", Price(PricePerHour(problem, found->plan)), " an hour"));
}

// That steps of the fastest plan are too slow for the deadline; empty if they are not.
std::string Late(const PlanGoal& goal, double step_seconds) {
  if (step_seconds <= goal.slowest_step_seconds()) return "";
  const JobSoFar& so_far = goal.so_far;
  return absl::StrCat(
      "constraints.deadline_seconds: ", goal.deadline_seconds, " (", Duration(goal.deadline_seconds), ")",
      so_far.has_begun() ? absl::StrCat(", of which steps have taken ", Duration(so_far.seconds)) : "",
      "; the fastest plan that was found needs ",
      Duration(static_cast<double>(goal.steps_left()) * step_seconds), " for ",
      Counted(goal.steps_left(), so_far.has_begun() ? "more step" : "step"));
}

// What is late, of a job that has begun; ResourceExhausted of one that has not.
absl::StatusOr<std::string> LateIfBegun(const PlanGoal& goal, double step_seconds) {
  std::string late = Late(goal, step_seconds);
  if (!late.empty() && !goal.so_far.has_begun()) return absl::ResourceExhaustedError(late);
  return late;
}

// `planned` with the reason if nothing is allowed.
template <typename Planned>
absl::StatusOr<Planned> Explained(absl::StatusOr<Planned> planned, const PlanningProblem& problem,
                                  const SearchLimits& limits) {
  if (absl::IsResourceExhausted(planned.status()) && problem.constraints.limit_devices())
    return WhyNothing(planned.status(), problem, limits);
  return planned;
}

}  // namespace

int64_t PlanGoal::steps_left() const { return std::max(int64_t{1}, steps - so_far.steps); }

double PlanGoal::slowest_step_seconds() const {
  if (deadline_seconds <= 0) return std::numeric_limits<double>::infinity();
  return (deadline_seconds - so_far.seconds) / static_cast<double>(steps_left()) * (1 + 1e-9);
}

absl::StatusOr<PlanForGoal> ChoosePlanFor(const PlanGoal& goal, const PlanningProblem& problem,
                                          ParetoListing listing, const SearchLimits& limits) {
  RETURN_IF_ERROR(CheckPrices(goal, problem));
  PlanForGoal result;
  if (goal.objective == Objective::kThroughput && listing == ParetoListing::kIfNeeded) {
    ASSIGN_OR_RETURN(result.chosen, Explained(ChoosePlan(problem, limits), problem, limits));
    ASSIGN_OR_RETURN(result.late, LateIfBegun(goal, result.chosen.step_seconds));
    ChosenPlan least = WithLeastChange(problem, goal.so_far.plan, result.chosen);
    if (!result.late.empty() || least.step_seconds <= goal.slowest_step_seconds())
      result.chosen = std::move(least);
    return result;
  }
  ASSIGN_OR_RETURN(result.list, Explained(ListTimeAgainstPrice(problem, limits, goal.slowest_step_seconds()),
                                          problem, limits));
  const std::vector<ParetoPoint>& points = result.list->points;
  ASSIGN_OR_RETURN(result.late, LateIfBegun(goal, points.front().chosen.step_seconds));
  if (goal.objective == Objective::kThroughput || !result.late.empty()) {
    result.chosen = points.front().chosen;
    result.chosen.simulated_plans = result.list->simulated_plans;
    return result;
  }
  double least_cost = std::numeric_limits<double>::infinity();
  for (const ParetoPoint& point : points) least_cost = std::min(least_cost, point.CostOfStep());
  // The first is the fastest.
  const auto cheap = std::find_if(points.begin(), points.end(), [&](const ParetoPoint& point) {
    return point.CostOfStep() <= kSameCost * least_cost;
  });
  result.chosen = cheap->chosen;
  result.chosen.simulated_plans = result.list->simulated_plans;
  result.chosen.proven_optimal = result.list->complete && cheap->CostOfStep() <= kSamePrice * least_cost;
  if (!result.list->complete) result.chosen.lower_bound_seconds = 0;  // of faster plans, which are not wanted
  return result;
}

}  // namespace medley
