#include "coordinator/problem/planned_job.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/least_change.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/problem/alike_hosts.h"
#include "coordinator/problem/changes_to_fit.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/device_costs.h"
#include "coordinator/problem/planning_problem.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// Nothing runs that the independent checker does not accept, whoever made it.
absl::Status Check(const Plan& plan, const PlanningProblem& problem) {
  PlanSite site;
  std::map<int, std::string> hosts;  // by the first of their nodes
  for (const DeviceCost& device : problem.devices) {
    site.room_by_device[device.name] = device.room;
    const std::string node = NodeOf(device.name);
    site.host_by_device[device.name] = {hosts.emplace(device.host, node).first->second, device.host_memory};
  }
  std::vector<PlanViolation> violations = CheckPlanForm(plan, problem.shape);
  if (violations.empty()) {
    // A rank's room depends on its share of the width, for so does what its ops hold.
    const std::unordered_map<std::string, int> device_by_name = DevicesByName(problem);
    for (const Unit& unit : plan.units) {
      const std::vector<ModelShare> shares = SharesOf(unit, problem.shape.model);
      for (size_t member = 0; member < unit.devices.size(); ++member) {
        const auto device = device_by_name.find(unit.devices[member]);
        if (device == device_by_name.end()) continue;
        site.room_by_device[device->first] =
            RoomOf(problem.devices[device->second], problem.shape.model, shares[member]);
      }
    }
    violations = CheckPlan(plan, problem.shape, site);
  }
  std::vector<std::string> details;
  for (const PlanViolation& violation : violations) details.push_back(violation.detail);
  if (details.empty()) return absl::OkStatus();
  if (std::string changes = DescribeChangesToFit(plan, problem.shape, site, violations); !changes.empty())
    details.push_back(std::move(changes));
  return absl::InvalidArgumentError(absl::StrCat("plan: ", absl::StrJoin(details, "; ")));
}

std::map<std::string, PlannedSlowdown> SlowdownsOf(const PlanningProblem& problem, const Plan& plan,
                                                   const Cluster& cluster, const std::string& shape) {
  const std::unordered_map<std::string, int> places = DevicesByName(problem);
  std::vector<DeviceOnHost> devices;
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) {
      std::string name = FullName(node.name, device);
      if (places.contains(name)) devices.push_back({HostOf(node), std::move(name), &device});
    }
  }
  const auto known = SlowdownsByDevice(devices, cluster.slowdowns, shape);
  std::map<int, std::map<std::string, PlannedSlowdown>> by_host;
  for (const std::string& device : DevicesOf(plan)) {
    const auto slowdown = known.find(device);
    if (slowdown == known.end()) continue;
    const DeviceCost& cost = problem.devices[places.at(device)];
    const KindSlowdown& of_kind = slowdown->second->by_kind.at(cost.kind);
    by_host[cost.host][device] = {
        .device_kind = cost.kind,
        .host = slowdown->second->newest_host,
        .measured_at_seconds = slowdown->second->newest_at_seconds,
        .passes = {of_kind.factor, cost.shared_slowdown},
        .updates = {std::max(1.0, of_kind.update_factor), cost.shared_update_slowdown}};
  }
  std::map<std::string, PlannedSlowdown> slowdowns;
  for (auto& [host, together] : by_host) {
    if (together.size() > 1) slowdowns.merge(together);
  }
  return slowdowns;
}

// PlannedJob::alone_on_host of a checked plan.
std::set<std::string> AloneOnHost(const PlanningProblem& problem, const Plan& plan) {
  const std::unordered_map<std::string, int> places = DevicesByName(problem);
  std::map<int, std::set<std::string>> by_host;
  for (const std::string& device : DevicesOf(plan))
    by_host[HostOf(problem, places.at(device))].insert(device);
  std::set<std::string> alone;
  for (const auto& [host, devices] : by_host) {
    if (devices.size() == 1) alone.insert(*devices.begin());
  }
  return alone;
}

// What units store that a pinned plan leaves open: what their first device would.
void FillActivations(const std::vector<int>& open, const PlanningProblem& problem, Plan& plan) {
  for (const int u : open) {
    Unit& unit = plan.units[u];
    if (unit.devices.empty()) continue;
    const DeviceCost* const device = FindDevice(problem, unit.devices.front());
    if (device != nullptr) unit.activations = device->activations;
  }
}

// PlannedJob::passes_as_profiled of a checked plan.
bool PassesAsProfiled(const PlanningProblem& problem, const Plan& plan) {
  return std::all_of(plan.units.begin(), plan.units.end(), [&](const Unit& unit) {
    return unit.devices.size() == 1 && unit.window_layers == 0 &&
           unit.activations_home == ActivationsHome::kDevice &&
           FindDevice(problem, unit.devices.front())->activations == unit.activations;
  });
}

absl::Status AddPareto(const PlanningProblem& problem, const ParetoList& list, PlanReport& report) {
  std::map<std::string, std::string> kinds;
  for (const DeviceCost& device : problem.devices) kinds[device.name] = device.kind;
  for (const ParetoPoint& point : list.points) {
    ASSIGN_OR_RETURN(const Explanation explanation, ExplainPlan(problem, point.chosen.plan));
    ParetoPlan& plan = report.pareto.emplace_back();
    plan.plan = point.chosen.plan;
    for (const std::string& device : DevicesOf(plan.plan)) ++plan.devices_by_kind[kinds[device]];
    plan.step_seconds = explanation.step_seconds;
    plan.price_per_hour = point.price_per_hour;
    plan.proven_optimal = point.chosen.proven_optimal;
    plan.bottleneck = explanation.bottleneck;
  }
  report.pareto_complete = list.complete;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const TrainingSpec& training, const JobConstraints& constraints,
                                   const Cluster& cluster, Comparison comparison,
                                   std::vector<LeftOutDevice> left_out, const SearchLimits& limits,
                                   ParetoListing listing, const JobSoFar& so_far) {
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(training, constraints, cluster));
  PlannedJob planned;
  PlanReport& report = planned.report;
  std::string fitting, orders;
  if (constraints.plan && listing == ParetoListing::kWanted)
    return absl::InvalidArgumentError(
        "plan: the job names it, so there are none to choose from by time and price");
  if (constraints.plan) {
    planned.plan = *constraints.plan;
    FillActivations(constraints.open_activations, problem, planned.plan);
    report.origin = PlanOrigin::kPinned;
    RETURN_IF_ERROR(Check(planned.plan, problem));
  } else {
    const PlanGoal goal = {constraints.objective, training.steps, constraints.deadline_seconds, so_far};
    ASSIGN_OR_RETURN(PlanForGoal for_goal, ChoosePlanFor(goal, problem, listing, limits));
    ChosenPlan& chosen = for_goal.chosen;
    if (const absl::Status valid = Check(chosen.plan, problem); !valid.ok()) {
      return absl::InternalError(absl::StrCat("the planner chose an invalid plan: ", valid.message()));
    }
    if (for_goal.list) {
      RETURN_IF_ERROR(AddPareto(problem, *for_goal.list, report));
    }
    report.objective = for_goal.late.empty() ? constraints.objective : Objective::kThroughput;
    planned.late = std::move(for_goal.late);
    planned.plan = std::move(chosen.plan);
    report.lower_bound_seconds = chosen.lower_bound_seconds;
    report.bound_under_1f1b_alone = chosen.bound_under_1f1b_alone;
    report.proven_optimal = chosen.proven_optimal;
    report.simulated_plans = chosen.simulated_plans;
    fitting = std::move(chosen.fitting);
    orders = std::move(chosen.orders);
  }
  planned.kept_devices = DevicesThatKeep(so_far.plan, planned.plan);
  planned.passes_as_profiled = PassesAsProfiled(problem, planned.plan);
  ASSIGN_OR_RETURN(planned.prediction, PredictStep(problem, planned.plan));
  ASSIGN_OR_RETURN(planned.reductions, ReductionsOf(problem, planned.plan));
  ASSIGN_OR_RETURN(const std::vector<ReductionChoice> exchanges, ExchangesOf(problem, planned.plan));
  planned.reductions.insert(planned.reductions.end(), exchanges.begin(), exchanges.end());
  report.steps = training.steps;
  report.message_protection = problem.message_protection;
  report.price_per_hour = PricePerHour(problem, planned.plan);
  report.tokens_per_step = int64_t{problem.shape.sequence} * problem.shape.global_batch_sequences;
  // Other kinds are compared by speed, which is not what such a job is for; it has the list instead.
  if (report.objective == Objective::kCost) comparison = Comparison::kNone;
  absl::StatusOr<Explanation> explanation = comparison == Comparison::kOtherKinds
                                                ? ExplainAndCompare(problem, planned.plan, limits)
                                                : ExplainPlan(problem, planned.plan);
  report.compared = comparison == Comparison::kOtherKinds && !absl::IsCancelled(explanation.status());
  if (absl::IsCancelled(explanation.status())) explanation = ExplainPlan(problem, planned.plan);
  ASSIGN_OR_RETURN(report.explanation, std::move(explanation));
  report.explanation.fitting = std::move(fitting);
  report.explanation.orders = std::move(orders);
  AddProvenance(training, cluster, planned.plan, report);
  report.left_out = std::move(left_out);
  planned.times_used = TimesUsed(training, cluster);
  const std::string shape = ShapeKey(training);
  planned.slowdowns = SlowdownsOf(problem, planned.plan, cluster, shape);
  planned.alone_on_host = AloneOnHost(problem, planned.plan);
  for (const Explanation::Device& device : report.explanation.devices) {
    const ProfileCorrection* const pace = PaceOf(device.name, device.kind, shape, cluster);
    if (device.used && pace != nullptr) planned.paces.emplace(device.name, *pace);
  }
  return planned;
}

absl::Status NoPlanWithin(double seconds) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the time limit of ", seconds, " s passed before any plan was found; more time may find one"));
}

absl::StatusOr<Explanation> ComparePlan(const Plan& plan, const TrainingSpec& training,
                                        const JobConstraints& constraints, const Cluster& cluster,
                                        const SearchLimits& limits) {
  ASSIGN_OR_RETURN(const PlanningProblem problem, MakeProblem(training, constraints, cluster));
  return ExplainAndCompare(problem, plan, limits);
}

}  // namespace medley
