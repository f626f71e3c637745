#include "coordinator/planner/chosen_parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/techniques/exchange_parts.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/reductions.h"

namespace medley {
namespace {

// With as many parts as are best for each unit by itself. Units of the same classes of devices have the same costs.
Plan InBestParts(const AlikeRoutePredictor& predictor, Plan plan) {
  const PlanningProblem& problem = predictor.problem();
  std::map<std::pair<std::vector<int>, std::array<int, 5>>, int> known;
  for (const Route& route : plan.routes) {
    for (const UnitId u : route.units) {
      Unit& unit = plan.units[u];
      if (unit.devices.size() == 1 || unit.chunks.size() > 1 || unit.sequence_parallel) continue;
      std::vector<int> devices, classes;
      for (const std::string& name : unit.devices) {
        devices.push_back(predictor.DeviceNamed(name));
        classes.push_back(predictor.ClassOf(devices.back()));
      }
      const BlockRange blocks = unit.chunks.front();
      const auto [entry, is_new] =
          known.try_emplace({classes,
                             {blocks.first.value(), blocks.end.value(), static_cast<int>(unit.recompute),
                              unit.recomputed_layers, route.micro_batch_sequences}},
                            1);
      if (is_new) {
        const PlanningProblem alone = OnDevices(problem, devices);
        Reductions reductions(alone);
        entry->second = BestParts(alone, reductions, unit, route.micro_batch_sequences);
      }
      unit.exchange_parts = entry->second;
    }
  }
  return plan;
}

}  // namespace

void ChooseParts(const PlanningProblem& problem, ChosenPlan& chosen) {
  AlikeRoutePredictor predictor(problem);
  Plan plan = InBestParts(predictor, chosen.plan);
  if (plan == chosen.plan) return;
  const absl::StatusOr<double> step_seconds = predictor.Predict(plan);
  if (!step_seconds.ok() || *step_seconds >= chosen.step_seconds * (1 - kLeastGainOfParts)) return;
  absl::StrAppend(&chosen.fitting, chosen.fitting.empty() ? "" : "; ",
                  DescribeParts(plan, *step_seconds, chosen.step_seconds));
  chosen.plan = std::move(plan);
  chosen.step_seconds = *step_seconds;
  chosen.lower_bound_seconds = 0;
}

Plan WithWholeMicroBatches(Plan plan) {
  for (Unit& unit : plan.units) unit.exchange_parts = 1;
  return plan;
}

std::string DescribeParts(const Plan& plan, double step_seconds, double whole_seconds) {
  int most = 1;
  for (const Unit& unit : plan.units) most = std::max(most, unit.exchange_parts);
  return absl::StrFormat(
      "units exchange in %s%d parts of a micro-batch beside what they compute of others, %.1f %% faster than "
      "of whole ones",
      std::all_of(plan.units.begin(), plan.units.end(),
                  [&](const Unit& unit) { return unit.exchange_parts == most; })
          ? ""
          : "up to ",
      most, 100 * (whole_seconds / step_seconds - 1));
}

}  // namespace medley
