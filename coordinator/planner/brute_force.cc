#include "coordinator/planner/brute_force.h"

#include <utility>
#include <vector>

#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"

namespace medley {
namespace {

class Visitor {
 public:
  Visitor(const PlanningProblem& problem, SameKind same_kind, const std::function<bool(const Plan&)>& visit)
      : problem_(problem), same_kind_(same_kind), visit_(visit), used_(problem.devices.size(), false) {}

  void Run() {
    for (const Schedule schedule : problem_.constraints.schedules) {
      plan_ = {.schedule = schedule};
      StartRoute(problem_.shape.global_batch_sequences);
    }
  }

 private:
  // `left` sequences for the routes to come.
  void StartRoute(int left) {
    if (left == 0) going_on_ = visit_(plan_);
    const int most = problem_.constraints.max_routes;
    if (most > 0 && static_cast<int>(plan_.routes.size()) >= most) return;
    for (const int size : problem_.micro_batch_sizes) {
      for (int micro_batches = 1; micro_batches * size <= left && going_on_; ++micro_batches) {
        plan_.routes.push_back({{}, micro_batches, size});
        AddStage(0, left - micro_batches * size);
        plan_.routes.pop_back();
      }
    }
  }

  void AddStage(BlockId first_block, int left) {
    const int blocks = problem_.shape.model.blocks();
    if (first_block == blocks) return StartRoute(left);
    const int most = problem_.constraints.max_stages;
    if (most > 0 && static_cast<int>(plan_.routes.back().units.size()) >= most) return;
    for (int d = 0; d < static_cast<int>(used_.size()) && going_on_; ++d) {
      if (used_[d] || (same_kind_ == SameKind::kInOrder && SkipsOneOfItsKind(d))) continue;
      const double price_before = price_per_hour_;
      price_per_hour_ += problem_.devices[d].price_per_hour;
      if (!problem_.constraints.Allow(static_cast<int>(plan_.units.size()) + 1, price_per_hour_)) {
        price_per_hour_ = price_before;
        continue;
      }
      used_[d] = true;
      plan_.routes.back().units.push_back(static_cast<int>(plan_.units.size()));
      for (BlockId end = first_block + 1; end <= blocks && going_on_; ++end) {
        plan_.units.push_back({.devices = {problem_.devices[d].name},
                               .chunks = {{first_block, end}},
                               .activations = problem_.devices[d].activations});
        AddStage(end, left);
        plan_.units.pop_back();
      }
      plan_.routes.back().units.pop_back();
      used_[d] = false;
      price_per_hour_ = price_before;
    }
  }

  bool SkipsOneOfItsKind(int device) const {
    for (int d = 0; d < device; ++d) {
      if (!used_[d] && problem_.devices[d].kind == problem_.devices[device].kind) return true;
    }
    return false;
  }

  const PlanningProblem& problem_;
  const SameKind same_kind_;
  const std::function<bool(const Plan&)>& visit_;
  Plan plan_;
  double price_per_hour_ = 0;  // of used_
  std::vector<bool> used_;
  bool going_on_ = true;
};

}  // namespace

void VisitEveryPlan(const PlanningProblem& problem, SameKind same_kind,
                    const std::function<bool(const Plan&)>& visit) {
  Visitor(problem, same_kind, visit).Run();
}

BruteForce LeastSeconds(const PlanningProblem& problem, SameKind same_kind, int64_t most_plans) {
  BruteForce result;
  StepSimulator simulator(problem);  // one for all plans: it remembers what reductions take
  VisitEveryPlan(problem, same_kind, [&](const Plan& plan) {
    if (++result.plans > most_plans) {
      result.complete = false;
      return false;
    }
    const auto consider = [&](const Plan& of) {
      const absl::StatusOr<double> seconds = simulator.Run(of);
      // Memory is dearer to look at than time.
      if (seconds.ok() && (!result.least_seconds || *seconds < *result.least_seconds) &&
          FitsMemory(problem, of)) {
        result.least_seconds = *seconds;
      }
    };
    consider(plan);
    if (!problem.constraints.saves_memory || plan.routes.size() < 2) return true;
    Plan shared = plan;
    shared.shards_optimizer = true;
    consider(shared);
    consider(WithUnitsByHost(problem, std::move(shared)));
    return true;
  });
  return result;
}

}  // namespace medley
