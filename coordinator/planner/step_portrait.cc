#include "coordinator/planner/step_portrait.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/format_figures.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// Of the rank that waits least for the others.
double ExchangeSeconds(const Plan& plan, UnitId unit, const StepPrediction& prediction) {
  const Rank first = FirstRankOf(plan, unit);
  double least = prediction.ranks[first].exchange_seconds;
  for (size_t member = 1; member < plan.units[unit].devices.size(); ++member)
    least = std::min(least, prediction.ranks[first + static_cast<int>(member)].exchange_seconds);
  return least;
}

double MessageSeconds(const StepProgram& program, const RankPrediction& unit) {
  double activation = 0, gradient = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const double seconds = unit.timeline[i].end_seconds - unit.timeline[i].start_seconds;
    if (program.instructions[i].kind == InstructionKind::kSendActivation) activation += seconds;
    if (program.instructions[i].kind == InstructionKind::kSendGradient) gradient += seconds;
  }
  return std::max(activation, gradient);
}

double ReductionSeconds(const StepProgram& program, const RankPrediction& unit) {
  double total = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (!IsOfSlice(program.instructions[i].kind)) continue;
    total += unit.timeline[i].end_seconds - unit.timeline[i].start_seconds;
  }
  return total;
}

UnitExchange LongestExchange(const Plan& plan, const StepPrediction& prediction) {
  UnitExchange longest;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (plan.units[u].devices.size() < 2) continue;
    if (const Rank first = FirstRankOf(plan, u); prediction.stand_ins[first] != first) continue;
    const double seconds = ExchangeSeconds(plan, u, prediction);
    if (longest.unit >= 0 && seconds <= longest.seconds) continue;
    longest = {.unit = u, .devices = absl::StrJoin(plan.units[u].devices, "+"), .seconds = seconds};
  }
  return longest;
}

}  // namespace

absl::StatusOr<StepPortrait> PortraitOf(const PlanningProblem& problem, const Plan& plan) {
  StepPortrait portrait;
  ASSIGN_OR_RETURN(portrait.prediction, PredictStep(problem, plan));
  const StepPrediction& prediction = portrait.prediction;
  const double step_seconds = std::max(prediction.step_seconds, 1e-300);
  for (int u = 0; u < static_cast<int>(prediction.ranks.size()); ++u) {
    if (prediction.stand_ins[u] != u) continue;
    const RankPrediction& unit = prediction.ranks[u];
    const double share = unit.busy_seconds / step_seconds;
    if (u == 0 || share > portrait.busiest_share) {
      portrait.busiest = u;
      portrait.busiest_share = share;
    }
    if (u == 0 || share < portrait.idlest_share) {
      portrait.idlest = u;
      portrait.idlest_share = share;
    }
    const StepProgram program = CompileStep(plan, u, problem.shape, Purpose::kTrain);
    portrait.reduction_seconds = std::max(portrait.reduction_seconds, ReductionSeconds(program, unit));
    const double message_seconds = MessageSeconds(program, unit);
    if (message_seconds > portrait.message_seconds) {
      portrait.message_seconds = message_seconds;
      portrait.slowest_sender = u;
    }
  }
  portrait.longest_exchange = LongestExchange(plan, prediction);
  return portrait;
}

std::string BottleneckOf(const StepPortrait& portrait) {
  const StepPrediction& prediction = portrait.prediction;
  const double busy_seconds = prediction.ranks[portrait.busiest].busy_seconds;
  const std::string of_step = absl::StrCat(" of the step's ", FormatSeconds(prediction.step_seconds));
  if (portrait.reduction_seconds > busy_seconds && portrait.reduction_seconds >= portrait.message_seconds) {
    return absl::StrCat("reductions: summing gradients takes ", FormatSeconds(portrait.reduction_seconds),
                        of_step, "; the busiest device computes for ", FormatSeconds(busy_seconds));
  }
  if (portrait.message_seconds > busy_seconds) {
    return absl::StrCat("link: messages that ", prediction.ranks[portrait.slowest_sender].device,
                        " sends one way take ", FormatSeconds(portrait.message_seconds), of_step,
                        "; the busiest device computes for ", FormatSeconds(busy_seconds));
  }
  if (portrait.longest_exchange.seconds > busy_seconds) {
    return absl::StrCat("exchanges: what ", portrait.longest_exchange.devices,
                        " sum and give each other within passes takes ",
                        FormatSeconds(portrait.longest_exchange.seconds), of_step,
                        "; the busiest device computes for ", FormatSeconds(busy_seconds));
  }
  return absl::StrCat("device: ", prediction.ranks[portrait.busiest].device, " computes for ",
                      FormatSeconds(busy_seconds), of_step, " (", FormatPercent(portrait.busiest_share), ")");
}

std::string WhySlower(const PlanningProblem& problem, const StepPortrait& portrait, double chosen_seconds) {
  const StepPrediction& prediction = portrait.prediction;
  const double step_seconds = prediction.step_seconds;
  const RankPrediction& busiest = prediction.ranks[portrait.busiest];
  const std::string length = FormatSeconds(step_seconds);
  const auto than_chosen = [&](std::string reason) {
    if (step_seconds > chosen_seconds * (1 + 1e-9)) return reason;
    return absl::StrCat("it is not slower: ", reason);
  };
  if (portrait.reduction_seconds > busiest.busy_seconds || portrait.message_seconds > busiest.busy_seconds) {
    return than_chosen(BottleneckOf(portrait));
  }
  std::string reason =
      absl::StrCat(busiest.device, " would be busy ", FormatPercent(portrait.busiest_share), " of ", length);
  const int left_out = static_cast<int>(problem.devices.size() - prediction.ranks.size());
  if (prediction.ranks.size() > 1) {
    const RankPrediction& idlest = prediction.ranks[portrait.idlest];
    absl::StrAppend(&reason, " while ", idlest.device, " idles ", FormatPercent(1 - portrait.idlest_share));
  }
  if (left_out > 0)
    absl::StrAppend(&reason, left_out == 1 ? "; 1 device" : absl::StrCat("; ", left_out, " devices"),
                    " would not be used");
  return than_chosen(reason);
}

}  // namespace medley
