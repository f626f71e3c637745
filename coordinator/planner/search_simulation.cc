#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "coordinator/planner/search.h"
#include "coordinator/planner/techniques/exchange_parts.h"

// What a choice takes: its bound, and its simulation.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of the same times in another order differ by less than this, relatively.
constexpr double kRounding = 1e-12;
constexpr size_t kBestPlans = 12;

}  // namespace

RouteBounds::Work Search::WorkOf(const Arrangement& arrangement, size_t route, int micro_batches) const {
  return {.list = arrangement.lists[route],
          .size = arrangement.sizes[route],
          .schedule = arrangement.schedule,
          .micro_batches = micro_batches,
          .replicated = arrangement.lists.size() > 1,
          .shards_optimizer = arrangement.shards_optimizer,
          .homes_layers = arrangement.homes_layers};
}

double Search::Bound(const Arrangement& arrangement, size_t route, int micro_batches) {
  return bounds_.Bound(WorkOf(arrangement, route, micro_batches)) + arrangement.fixed_seconds();
}

// The bound of one complete choice; infinite if it does not fit.
double Search::BoundOfChoice(const Arrangement& arrangement, const std::vector<RouteChoice>& choice) {
  double bound = 0;
  std::map<int, double> processors;
  for (size_t r = 0; r < choice.size(); ++r) {
    bound = std::max(bound,
                     bounds_.BoundOfSplit(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends));
    for (size_t s = 0; arrangement.shares_processor && s < choice[r].ends.size(); ++s) {
      const int c = bounds_.ClassesOf(arrangement.lists[r])[s];
      const BlockRange blocks = choice[r].blocks(s);
      if (blocks.size() < 1) break;
      const DeviceCost& cost = problem_.devices[arrangement.devices[r][s]];
      processors[cost.processor] +=
          choice[r].micro_batches * (tables_.ForwardSeconds(c, arrangement.sizes[r], blocks) +
                                     tables_.BackwardSeconds(c, arrangement.sizes[r], blocks));
      if (arrangement.shards_optimizer) continue;
      processors[cost.processor] +=
          static_cast<double>(tables_.Parameters(blocks)) * cost.update_seconds_per_parameter;
    }
  }
  for (const auto& [processor, seconds] : processors) bound = std::max(bound, seconds);
  return bound + arrangement.fixed_seconds();
}

// When each unit of a route has run its last backward, as if there were no other routes and nothing slowed
// anything down.
const std::vector<double>& Search::LastBackwards(const Arrangement& arrangement, size_t route,
                                                 const RouteChoice& choice) {
  std::vector<int> key(choice.ends.begin(), choice.ends.end());
  key.insert(key.end(), {arrangement.lists[route], arrangement.sizes[route],
                         static_cast<int>(arrangement.schedule), choice.micro_batches});
  const auto [entry, inserted] = last_backwards_.try_emplace(std::move(key));
  if (!inserted) return entry->second;
  Arrangement alone{.sizes = {arrangement.sizes[route]}, .schedule = arrangement.schedule};
  alone.lists = {arrangement.lists[route]};
  alone.devices = {arrangement.devices[route]};
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = unslowed_simulator_.Run(PlanOf(alone, {choice}, {0}));
  const int degree = units_.empty() ? 1 : static_cast<int>(units_.front().devices.size());  // of all
  for (int s = 0; s < static_cast<int>(choice.ends.size()); ++s) {
    entry->second.push_back(seconds.ok() ? unslowed_simulator_.LastBackwardOf(s * degree).end_seconds
                                         : kInfinity);
  }
  return entry->second;
}

double Search::Simulate(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                        const std::vector<int>& order) {
  if (is_kept_best_ && FitsAsItIs(arrangement, choice)) return kInfinity;
  if (arrangement.shards_optimizer || arrangement.homes_layers)
    return SimulateSaving(arrangement, choice, order);
  return Simulate(PlanOf(arrangement, choice, order), arrangement.units);
}

double Search::Simulate(Plan plan, int units) {
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = simulator_.Run(plan);
  if (!seconds.ok()) return kInfinity;
  // Orders are not made for copies.
  const bool has_homes = std::any_of(plan.units.begin(), plan.units.end(),
                                     [](const Unit& unit) { return unit.window_layers > 0; });
  if (problem_.constraints.synthesised_orders && HasPipeline(plan) && !has_homes)
    KeepAmong(best_pipelines_, plan, *seconds);
  if (problem_.constraints.saves_memory && plan.routes.size() > 1 && !plan.shards_optimizer)
    KeepAmong(best_replicas_, plan, *seconds);
  if (*seconds < Below(units)) {
    best_.plan = std::move(plan);
    best_.step_seconds = *seconds;
  }
  return *seconds;
}

void Search::KeepAmong(std::vector<PredictedPlan>& best, const Plan& plan, double seconds) {
  if (best.size() == kBestPlans && best.back().step_seconds <= seconds) return;
  // One of each set of devices, however routes divide them: more would leave no room for others.
  const auto is_alike = [&](const PredictedPlan& kept) {
    return DevicesOf(kept.plan) == DevicesOf(plan) &&
           std::equal(kept.plan.routes.begin(), kept.plan.routes.end(), plan.routes.begin(),
                      plan.routes.end(), [](const Route& a, const Route& b) {
                        return a.micro_batch_sequences == b.micro_batch_sequences;
                      });
  };
  const auto alike = std::find_if(best.begin(), best.end(), is_alike);
  if (alike != best.end()) {
    if (alike->step_seconds <= seconds) return;
    best.erase(alike);
  }
  const auto after =
      std::upper_bound(best.begin(), best.end(), seconds,
                       [](double s, const PredictedPlan& kept) { return s < kept.step_seconds; });
  best.insert(after, {plan, seconds});
  if (best.size() > kBestPlans) best.pop_back();
}

Plan Search::PlanOf(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                    const std::vector<int>& order) {
  Plan plan{.schedule = arrangement.schedule};
  for (const int r : order) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = choice[r].micro_batches;
    route.micro_batch_sequences = SequencesOf(arrangement, r);
    const std::vector<UnitSaving> savings =
        bounds_.LeastSavingsOf(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends);
    for (size_t s = 0; s < choice[r].ends.size(); ++s) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      const int d = arrangement.devices[r][s];
      Unit& unit = plan.units.emplace_back();
      if (units_.empty()) {
        const DeviceCost& device = problem_.devices[d];
        unit = {.devices = {device.name}, .chunks = {choice[r].blocks(s)}, .activations = device.activations};
      } else {
        unit = UnitOf(simulated_, units_[d], choice[r].blocks(s));
      }
      unit.recompute = savings[s].recompute;
      unit.recomputed_layers = savings[s].recomputed_layers;
      if (!units_.empty()) unit.exchange_parts = PartsFor(d, unit, route.micro_batch_sequences);
    }
  }
  return plan;
}

int Search::PartsFor(int device, const Unit& unit, int sequences) {
  const BlockRange blocks = unit.chunks.front();
  const auto [known, inserted] =
      parts_.try_emplace({device, sequences, blocks.first.value(), blocks.end.value(),
                          static_cast<int>(unit.recompute), unit.recomputed_layers},
                         1);
  if (inserted) {
    known->second = BestParts(simulated_, *simulated_reductions_, unit, sequences);
    evaluated_ += blocks.size();
  }
  return known->second;
}

double Search::Below(int units) const {
  if (best_.plan.units.empty()) return kInfinity;
  const bool fewer_units = units < static_cast<int>(best_.plan.units.size());
  return best_.step_seconds * (fewer_units ? 1 + kRounding : 1 - kRounding);
}

}  // namespace medley
