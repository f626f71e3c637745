#pragma once
#include <atomic>
#include <vector>

#include "coordinator/planner/classes/class_tables.h"
#include "coordinator/planner/classes/judge_plans.h"
#include "coordinator/planner/classes/plan_by_class.h"

namespace medley {

// Shapes of plans and of searches that take no longer than that of the best plan tell what devices are worth.
inline constexpr double kOfUse = 1.03;

// The plans that searches by estimates have found, as far as predictions judge them. Estimates fall short of predictions, of some plans by
// little and of others by half: so whatever is estimated to be as fast as the fastest so far is predicted, and nothing that
// is estimated to be slower. All that fit are kept, not the fastest alone: the local search begins near the best of several numbers of
// replicas and degrees, passes in other orders are looked for of the best few, and their shapes tell the bound what devices are worth.
class CandidatePlans {
 public:
  // All must outlive it.
  CandidatePlans(ClassTables& tables, PlanByClass& best, const std::atomic<bool>* stop)
      : tables_(tables), best_(best), stop_(stop), judge_(tables.predictor(), best) {}

  bool found_any() const { return judge_.found_any(); }
  bool IsHopeless(double estimated_seconds) const;
  double best_seconds() const { return best_.step_seconds; }

  // Predicts it if it is not hopeless. `deal`: as PlanJudge::StepSeconds.
  void Judge(const StageTable& table, ClassedPlan found, const PlanJudge::Deal& deal);

  // Predicts plans near the fastest of several numbers of replicas and degrees.
  void Improve();

  std::vector<RouteShape> ShapesOfUse() const;
  // Whose kinds are those of ClassTables::TableOf.
  const std::vector<JudgedPlan>& judged() const { return judged_; }
  PlanJudge& judge() { return judge_; }

 private:
  int DegreeOf(const ClassedPlan& plan);

  ClassTables& tables_;
  PlanByClass& best_;
  const std::atomic<bool>* const stop_;
  PlanJudge judge_;
  std::vector<JudgedPlan> judged_;
};

}  // namespace medley
