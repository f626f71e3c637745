#include "coordinator/cli/offline_plan.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/problem/plan_report.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/base/status_macros.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/codec/job_codec.h"
#include "runtime/codec/plan_codec.h"
#include "runtime/plan/check_plan.h"

namespace medley {
namespace {

absl::Status CheckPinned(const Plan& plan, const PlanningProblem& problem) {
  PlanSite site;
  for (const DeviceCost& device : problem.devices) site.memory_by_device[device.name] = device.memory - device.workspace;
  const std::vector<PlanViolation> violations = CheckPlan(plan, problem.shape, site);
  if (violations.empty()) return absl::OkStatus();
  std::vector<std::string> details;
  for (const PlanViolation& violation : violations) details.push_back(violation.detail);
  return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(details, "; ")));
}

absl::StatusOr<ChosenPlan> Choose(const v1::JobSpec& spec, const PlanningProblem& problem) {
  if (!spec.has_plan()) return ChoosePlan(problem);
  ChosenPlan chosen;
  ASSIGN_OR_RETURN(chosen.plan, DecodePlan(spec.plan()));
  RETURN_IF_ERROR(CheckPinned(chosen.plan, problem));
  ASSIGN_OR_RETURN(chosen.step_seconds, PredictStepSeconds(problem, chosen.plan));
  return chosen;
}

}  // namespace

absl::StatusOr<v1::PlanReport> PlanOffline(const v1::JobSpec& spec, const v1::ClusterSpec& cluster) {
  std::optional<GptConfig> config;
  if (!spec.model().hugging_face().empty()) {
    ASSIGN_OR_RETURN(config, ReadGptConfig(spec.model().hugging_face()));
  }
  ASSIGN_OR_RETURN(const TrainingSpec training, DecodeJobSpec(spec, "", config));
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(training, EffectiveConstraints(spec), cluster));
  ASSIGN_OR_RETURN(const ChosenPlan chosen, Choose(spec, problem));
  ASSIGN_OR_RETURN(const Explanation explanation, ExplainPlan(problem, chosen.plan));
  return EncodePlanReport(chosen, explanation, problem.shape,
                          spec.has_plan() ? PlanOrigin::kPinned : PlanOrigin::kPlanner, FormatExplanation(explanation));
}

}  // namespace medley
