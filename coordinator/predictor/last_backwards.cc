#include "coordinator/predictor/last_backwards.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Periods of a pipeline that differ by no larger a part are alike.
constexpr double kSettled = 1e-4;

bool Settles(const Plan& set) {
  return set.routes.size() == 1 && set.schedule == Schedule::kOneForwardOneBackward &&
         PassesEachUnitOnce(set);
}

}  // namespace

absl::StatusOr<LastBackwardsOfUnits> LastBackwards::Of(const std::string& kind, const PlanningProblem& alone,
                                                       Plan set) {
  const int units = static_cast<int>(set.units.size()), micro_batches = set.routes[0].micro_batches;
  const bool settles = Settles(set);
  for (int count = 2 * units + 2; settles && count < micro_batches; count *= 2) {
    ASSIGN_OR_RETURN(LastBackwardsOfUnits last, Simulated(kind, alone, set, count));
    ASSIGN_OR_RETURN(const LastBackwardsOfUnits before, Simulated(kind, alone, set, count - units));
    ASSIGN_OR_RETURN(const LastBackwardsOfUnits long_before, Simulated(kind, alone, set, count - 2 * units));
    bool settled = true;
    for (int u = 0; u < units; ++u) {
      double& end_seconds = last[u][0].end_seconds;
      const double period = end_seconds - before[u][0].end_seconds,
                   period_before = before[u][0].end_seconds - long_before[u][0].end_seconds;
      settled = settled && std::abs(period - period_before) <= kSettled * period;
      end_seconds += (micro_batches - count) * period / units;
    }
    if (settled) return last;
  }
  return Simulated(kind, alone, set, micro_batches);
}

absl::StatusOr<LastBackwardsOfUnits> LastBackwards::Simulated(const std::string& kind,
                                                              const PlanningProblem& alone, Plan& set,
                                                              int micro_batches) {
  LastBackwardsOfUnits& known = known_[absl::StrCat(kind, "#", micro_batches)];
  if (!known.empty()) return known;
  set.routes[0].micro_batches = micro_batches;
  StepSimulator simulator(alone);
  RETURN_IF_ERROR(simulator.Run(set).status());
  Rank first = 0;
  for (const Unit& unit : set.units) {
    const Rank end = first + static_cast<int>(unit.devices.size());
    std::vector<LastBackward>& of_ranges = known.emplace_back();
    for (int chunk = 0; chunk < static_cast<int>(unit.chunks.size()); ++chunk) {
      of_ranges.push_back(simulator.LastBackwardOf(first, chunk));
      double& end_seconds = of_ranges.back().end_seconds;
      for (Rank rank = first + 1; rank < end; ++rank)
        end_seconds = std::max(end_seconds, simulator.LastBackwardOf(rank, chunk).end_seconds);
    }
    first = end;
  }
  return known;
}

}  // namespace medley
