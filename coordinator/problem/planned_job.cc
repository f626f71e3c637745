#include "coordinator/problem/planned_job.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/problem/plan_provenance.h"
#include "coordinator/problem/plan_report.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

// Nothing runs that the independent checker does not accept, whoever made it.
absl::Status Check(const Plan& plan, const PlanningProblem& problem) {
  PlanSite site;
  for (const DeviceCost& device : problem.devices) {
    site.memory_by_device[device.name] = device.memory - device.workspace;
    site.copy_bytes_per_parameter_by_device[device.name] = device.copy_bytes_per_parameter;
  }
  std::vector<std::string> details;
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, site))
    details.push_back(violation.detail);
  if (details.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(details, "; ")));
}

std::map<std::string, PlannedSlowdown> SlowdownsOf(const PlanningProblem& problem, const Plan& plan,
                                                   const v1::ClusterSpec& cluster, const std::string& shape) {
  std::set<std::string> used;
  for (const std::string& device : DevicesOf(plan)) used.insert(device);
  std::map<std::string, double> planned_factors;
  for (const DeviceCost& device : problem.devices) planned_factors[device.name] = device.shared_slowdown;
  std::set<std::string> hosts;
  for (const v1::Node& node : cluster.nodes()) hosts.insert(HostOf(node));
  std::map<std::string, PlannedSlowdown> slowdowns;
  for (const std::string& host : hosts) {
    const v1::HostSlowdown* slowdown = FindSlowdown(cluster, host, shape);
    if (slowdown == nullptr) continue;
    std::map<std::string, PlannedSlowdown> together;
    for (const v1::SharedSlowdown& shared : slowdown->devices()) {
      if (used.count(shared.device()) == 0) continue;
      together[shared.device()] = {host, slowdown->measured_at_seconds(), shared.factor(),
                                   planned_factors[shared.device()]};
    }
    if (together.size() > 1) slowdowns.merge(together);
  }
  return slowdowns;
}

Dtype ActivationsOf(const PlanningProblem& problem, const std::string& device) {
  for (const DeviceCost& cost : problem.devices) {
    if (cost.name == device) return cost.activations;
  }
  return Dtype::kF32;
}

// What units store that a pinned plan leaves open: what their first device would.
void FillActivations(const v1::Plan& pinned, const PlanningProblem& problem, Plan& plan) {
  for (size_t u = 0; u < plan.units.size(); ++u) {
    Unit& unit = plan.units[u];
    if (pinned.units(static_cast<int>(u)).activations() == v1::TENSOR_TYPE_UNSPECIFIED &&
        !unit.devices.empty())
      unit.activations = ActivationsOf(problem, unit.devices.front());
  }
}

// Whether all units store activations as their devices' profiles were measured with.
bool StoresAsProfiled(const PlanningProblem& problem, const Plan& plan) {
  for (const Unit& unit : plan.units) {
    for (const std::string& device : unit.devices) {
      if (ActivationsOf(problem, device) != unit.activations) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const TrainingSpec& training,
                                   const v1::ClusterSpec& cluster, Comparison comparison,
                                   const std::vector<v1::LeftOutDevice>& left_out) {
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(training, EffectiveConstraints(spec), cluster));
  ChosenPlan chosen;
  if (spec.has_plan()) {
    ASSIGN_OR_RETURN(chosen.plan, DecodePlan(spec.plan()));
    FillActivations(spec.plan(), problem, chosen.plan);
    RETURN_IF_ERROR(Check(chosen.plan, problem));
  } else {
    ASSIGN_OR_RETURN(chosen, ChoosePlan(problem));
    if (const absl::Status valid = Check(chosen.plan, problem); !valid.ok()) {
      return absl::InternalError(absl::StrCat("the planner chose an invalid plan: ", valid.message()));
    }
  }
  PlannedJob planned{.plan = chosen.plan, .stores_as_profiled = StoresAsProfiled(problem, chosen.plan)};
  ASSIGN_OR_RETURN(planned.prediction, PredictStep(problem, chosen.plan));
  ASSIGN_OR_RETURN(planned.reductions, ReductionsOf(problem, chosen.plan));
  chosen.step_seconds = planned.prediction.step_seconds;
  const bool compares = comparison == Comparison::kOtherKinds;
  ASSIGN_OR_RETURN(const Explanation explanation,
                   compares ? ExplainAndCompare(problem, chosen.plan) : ExplainPlan(problem, chosen.plan));
  planned.report = EncodePlanReport(chosen, explanation, problem.shape,
                                    spec.has_plan() ? PlanOrigin::kPinned : PlanOrigin::kPlanner,
                                    FormatExplanation(explanation));
  planned.report.set_compared(compares);
  AddProvenance(training, cluster, planned.report);
  planned.corrections = CorrectionsOf(training, cluster);
  planned.slowdowns = SlowdownsOf(problem, planned.plan, cluster, ShapeKey(training));
  planned.report.mutable_left_out()->Add(left_out.begin(), left_out.end());
  return planned;
}

absl::StatusOr<v1::PlanReport> Compared(const v1::PlanReport& report, const v1::JobSpec& spec,
                                        const TrainingSpec& training, const v1::ClusterSpec& cluster) {
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(training, EffectiveConstraints(spec), cluster));
  ASSIGN_OR_RETURN(const Plan plan, DecodePlan(report.plan()));
  ASSIGN_OR_RETURN(const Explanation explanation, ExplainAndCompare(problem, plan));
  v1::PlanReport compared = report;
  EncodeComparison(explanation, FormatExplanation(explanation), compared);
  compared.set_compared(true);
  return compared;
}

}  // namespace medley
