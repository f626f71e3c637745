#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/explained_devices.h"
#include "coordinator/planner/explained_sums.h"
#include "coordinator/planner/format_figures.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/step_portrait.h"
#include "coordinator/planner/what_helps.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Of more devices steps of plans that are not taken are not simulated once more, which takes minutes where no rank stands for others.
constexpr size_t kMostPortrayed = 2048;

std::string DescribeProtection(MessageProtection protection) {
  switch (protection) {
    case MessageProtection::kNone:
      break;
    case MessageProtection::kChecksum:
      return "between hosts are protected by a checksum, which the links were measured with";
    case MessageProtection::kEncryption:
      return "between hosts are protected by encryption, which the links were measured with";
  }
  return "";
}

// With the kinds of its devices for their names: of many devices nobody reads these.
Plan NamingKinds(const PlanningProblem& problem, Plan plan) {
  std::map<std::string, std::string> kinds;
  for (const DeviceCost& device : problem.devices) kinds[device.name] = device.kind;
  for (Unit& unit : plan.units) {
    for (std::string& name : unit.devices) name = kinds[name];
  }
  return plan;
}

std::string DescribeUnused(const std::vector<Explanation::Device>& devices, bool by_name) {
  std::vector<std::string> names;
  std::map<std::string, int> counts;  // by kind
  for (const Explanation::Device& device : devices) {
    if (device.used) continue;
    names.push_back(device.name);
    ++counts[device.kind];
  }
  if (names.empty()) return "";
  const auto of_kind = [](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second, " of ", kind.first);
  };
  return absl::StrCat(
      " Not used: ", by_name ? absl::StrJoin(names, ", ") : absl::StrJoin(counts, ", ", of_kind), ".");
}

std::string Summary(const PlanningProblem& problem, const Plan& plan, const Explanation& explanation,
                    const StepPrediction& prediction) {
  const bool by_name = problem.devices.size() <= kMostSearchedDevices;
  return absl::StrFormat(
             "%s. A step is predicted to take %s (%.0f tokens/s); the devices in use compute "
             "%s of the time.",
             Describe(by_name ? plan : NamingKinds(problem, plan)), FormatSeconds(prediction.step_seconds),
             prediction.tokens_per_second, FormatPercent(1 - explanation.bubble_share)) +
         DescribeUnused(explanation.devices, by_name);
}

// Where the plan is not simulated once more for the reason.
std::string HowMuchSlower(double step_seconds, double chosen_seconds) {
  const double longer = step_seconds / chosen_seconds - 1;
  if (std::abs(longer) < 0.005) return "a step would take as long";
  return absl::StrCat("a step would take ", FormatPercent(std::abs(longer)),
                      longer < 0 ? " less" : " longer");
}

absl::StatusOr<std::vector<Alternative>> AlternativesTo(const PlanningProblem& problem, const Plan& plan,
                                                        const SearchLimits& limits) {
  std::vector<Alternative> alternatives;
  if (problem.devices.size() <= kMostSearchedDevices) {
    ASSIGN_OR_RETURN(alternatives, BestOfEachKind(problem, limits));
  } else {
    alternatives.push_back(EvenSplitOfMany(problem, limits));
  }
  for (Alternative& nearby : NearbyPlans(problem, plan, limits)) alternatives.push_back(std::move(nearby));
  if (limits.stopped()) return absl::CancelledError("planning was stopped before other kinds were searched");
  return alternatives;
}

absl::StatusOr<Explanation::Rejected> Rejection(const PlanningProblem& problem,
                                                const Alternative& alternative, double chosen_seconds) {
  Explanation::Rejected rejected{.kind = alternative.kind};
  if (!alternative.plan.ok()) {
    rejected.description = "none";
    rejected.why_slower = std::string(alternative.plan.status().message());
    return rejected;
  }
  rejected.description = alternative.description;
  rejected.step_seconds = alternative.plan->step_seconds;
  if (problem.devices.size() <= kMostPortrayed) {
    ASSIGN_OR_RETURN(const StepPortrait portrait, PortraitOf(problem, alternative.plan->plan));
    rejected.why_slower = WhySlower(problem, portrait, chosen_seconds);
  } else {
    rejected.why_slower = HowMuchSlower(rejected.step_seconds, chosen_seconds);
  }
  return rejected;
}

}  // namespace

absl::StatusOr<Explanation> ExplainPlan(const PlanningProblem& problem, const Plan& plan) {
  RETURN_IF_ERROR(CheckProblem(problem));
  ASSIGN_OR_RETURN(const StepPortrait portrait, PortraitOf(problem, plan));
  const StepPrediction& prediction = portrait.prediction;
  Explanation explanation;
  explanation.step_seconds = prediction.step_seconds;
  ExplainDevices(problem, plan, prediction, explanation);
  explanation.bottleneck = BottleneckOf(portrait);
  explanation.messages = DescribeProtection(problem.message_protection);
  Reductions reductions(problem);
  ASSIGN_OR_RETURN(explanation.reductions, DescribeReductions(problem, plan, reductions));
  ASSIGN_OR_RETURN(explanation.exchanges, DescribeExchanges(problem, plan, portrait.longest_exchange,
                                                            prediction.step_seconds, reductions));
  explanation.summary = Summary(problem, plan, explanation, prediction);
  return explanation;
}

absl::StatusOr<Explanation> ExplainAndCompare(const PlanningProblem& problem, const Plan& plan,
                                              const SearchLimits& limits) {
  ASSIGN_OR_RETURN(Explanation explanation, ExplainPlan(problem, plan));
  ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(problem, plan, limits));
  for (const Alternative& alternative : alternatives) {
    if (alternative.plan.ok() && alternative.plan->plan == plan) continue;
    ASSIGN_OR_RETURN(explanation.rejected.emplace_back(),
                     Rejection(problem, alternative, explanation.step_seconds));
  }
  explanation.helps = WhatHelps(problem, plan, limits);
  if (problem.devices.size() > kMostPlannedAnew)
    explanation.helps_not_tried = "not tried of so many devices: more memory";
  return explanation;
}

}  // namespace medley
