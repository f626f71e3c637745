#include "coordinator/planner/step_portrait.h"

#include <algorithm>
#include <iterator>
#include <optional>
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

// Of a rank's instructions for which `is` holds, added up.
template <typename Is>
double SecondsOf(const StepProgram& program, const RankPrediction& rank, const Is& is) {
  double seconds = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (is(program.instructions[i].kind))
      seconds += rank.timeline[i].end_seconds - rank.timeline[i].start_seconds;
  }
  return seconds;
}

// Of two kinds that go beside each other the one that takes longer.
double LongerOf(const StepProgram& program, const RankPrediction& rank, InstructionKind a,
                InstructionKind b) {
  return std::max(SecondsOf(program, rank, [&](InstructionKind kind) { return kind == a; }),
                  SecondsOf(program, rank, [&](InstructionKind kind) { return kind == b; }));
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

// What takes longest beside computing, if it takes longer than the busiest device computes, for people.
std::optional<std::string> LongerThanComputing(const StepPortrait& portrait) {
  const StepPrediction& prediction = portrait.prediction;
  const auto device = [&](int rank) { return rank < 0 ? "" : prediction.ranks[rank].device; };
  const std::pair<double, std::string> beside[] = {
      {portrait.reduction_seconds, "reductions: summing gradients takes "},
      {portrait.message_seconds,
       absl::StrCat("link: messages that ", device(portrait.slowest_sender), " sends one way take ")},
      {portrait.longest_exchange.seconds, absl::StrCat("exchanges: what ", portrait.longest_exchange.devices,
                                                       " sum and give each other within passes takes ")},
      {portrait.copy_seconds, absl::StrCat("host memory: what ", device(portrait.longest_copier),
                                           " copies one way between it and its own takes ")}};
  const auto& [seconds, what] = *std::max_element(
      std::begin(beside), std::end(beside), [](const auto& a, const auto& b) { return a.first < b.first; });
  const double busy_seconds = prediction.ranks[portrait.busiest].busy_seconds;
  if (seconds <= busy_seconds) return std::nullopt;
  return absl::StrCat(what, FormatSeconds(seconds), " of the step's ", FormatSeconds(prediction.step_seconds),
                      "; the busiest device computes for ", FormatSeconds(busy_seconds));
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
    portrait.reduction_seconds = std::max(portrait.reduction_seconds, SecondsOf(program, unit, IsOfSlice));
    const double message_seconds =
        LongerOf(program, unit, InstructionKind::kSendActivation, InstructionKind::kSendGradient);
    if (message_seconds > portrait.message_seconds) {
      portrait.message_seconds = message_seconds;
      portrait.slowest_sender = u;
    }
    const double copy_seconds = LongerOf(program, unit, InstructionKind::kFetch, InstructionKind::kStore);
    if (copy_seconds > portrait.copy_seconds) {
      portrait.copy_seconds = copy_seconds;
      portrait.longest_copier = u;
    }
  }
  portrait.longest_exchange = LongestExchange(plan, prediction);
  return portrait;
}

std::string BottleneckOf(const StepPortrait& portrait) {
  if (const std::optional<std::string> beside = LongerThanComputing(portrait)) return *beside;
  const RankPrediction& busiest = portrait.prediction.ranks[portrait.busiest];
  return absl::StrCat("device: ", busiest.device, " computes for ", FormatSeconds(busiest.busy_seconds),
                      " of the step's ", FormatSeconds(portrait.prediction.step_seconds), " (",
                      FormatPercent(portrait.busiest_share), ")");
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
  if (std::optional<std::string> beside = LongerThanComputing(portrait))
    return than_chosen(*std::move(beside));
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
