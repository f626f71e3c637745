#include "coordinator/planner/pareto.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Less is the same price, or the same time.
constexpr double kLess = 1e-6, kRounding = 1e-9;
// Plannings where all prices are looked at, if there is no end to them.
constexpr int kMostPlannings = 400;

double LeastPrice(const PlanningProblem& problem) {
  double least = std::numeric_limits<double>::infinity();
  for (const DeviceCost& device : problem.devices)
    if (device.price_per_hour > 0) least = std::min(least, device.price_per_hour);
  return least;
}

// What plans may cost at most, one after another.
class Budgets {
 public:
  Budgets(const PlanningProblem& problem, double first_price)
      : all_prices_(problem.devices.size() <= kMostDevicesOfAllPrices),
        first_price_(first_price),
        least_price_(LeastPrice(problem)),
        ratio_(std::pow(std::min(1.0, least_price_ / first_price), 1.0 / (kMostBudgets - 1))) {}

  bool all_prices() const { return all_prices_; }

  // After a plan of `price`; 0: that was the last one.
  double Next(double price) {
    ++count_;
    if (price <= 0 || count_ > (all_prices_ ? kMostPlannings : kMostBudgets)) return 0;
    const double below = price * (1 - kLess);
    if (all_prices_) return below;
    // What costs less than the cheapest device is free.
    const double even = count_ == kMostBudgets ? least_price_ / 2 : first_price_ * std::pow(ratio_, count_);
    return std::min(below, even);
  }

 private:
  const bool all_prices_;
  const double first_price_, least_price_, ratio_;
  int count_ = 0;
};

// Those that none of the others is as good as in both.
void DropDominated(std::vector<ParetoPoint>& points) {
  std::vector<ParetoPoint> kept;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {  // from the cheapest
    if (!kept.empty() && point->chosen.step_seconds >= kept.back().chosen.step_seconds * (1 - kRounding))
      continue;
    kept.push_back(std::move(*point));
  }
  std::reverse(kept.begin(), kept.end());
  points = std::move(kept);
}

}  // namespace

absl::StatusOr<ParetoList> ListTimeAgainstPrice(const PlanningProblem& problem, const SearchLimits& limits,
                                                double slowest_step_seconds) {
  ParetoList list;
  PlanningProblem cheaper = problem;
  ASSIGN_OR_RETURN(ChosenPlan fastest, ChoosePlan(problem, limits));
  const double first_price = PricePerHour(problem, fastest.plan);
  Budgets budgets(problem, first_price);
  list.complete = budgets.all_prices() && fastest.proven_optimal;
  list.simulated_plans = fastest.simulated_plans;
  list.points.push_back({std::move(fastest), first_price});
  while (list.points.back().price_per_hour > 0 &&
         list.points.back().chosen.step_seconds <= slowest_step_seconds) {
    cheaper.constraints.most_price_per_hour = budgets.Next(list.points.back().price_per_hour);
    if (cheaper.constraints.most_price_per_hour == 0 || limits.stopped()) {
      list.complete = false;
      break;
    }
    absl::StatusOr<ChosenPlan> chosen = ChoosePlan(cheaper, limits);
    if (absl::IsResourceExhausted(chosen.status())) break;
    if (absl::IsCancelled(chosen.status()) || absl::IsDeadlineExceeded(chosen.status())) {
      list.complete = false;
      break;
    }
    RETURN_IF_ERROR(chosen.status());
    if (!chosen->proven_optimal) list.complete = false;
    list.simulated_plans += chosen->simulated_plans;
    if (chosen->step_seconds > slowest_step_seconds) break;
    const double price = PricePerHour(problem, chosen->plan);
    list.points.push_back({*std::move(chosen), price});
  }
  DropDominated(list.points);
  return list;
}

}  // namespace medley
