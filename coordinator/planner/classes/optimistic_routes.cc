#include "coordinator/planner/classes/optimistic_routes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/greatest_that.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

Trips TripsOf(int micro_batches, int most_stages) {
  const int ways = (micro_batches - 1) / most_stages;
  return ways == 0 ? Trips{} : Trips{1 + ways, (micro_batches - 1) % most_stages};
}

PlanKind::PlanKind(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                   StageMemories& memories, bool layers_on_hosts, int most_stages, const PlanTraits& traits)
    : table_(problem, classes, memories,
             // No replica carries less of it: the tied embedding may have two holders a route.
             traits.shards_optimizer ? 0.5 / traits.routes.most : 1,
             {.layers_on_hosts = layers_on_hosts,
              .of_bounds = true,
              .limited_class = traits.slow_class,
              .most_layers = traits.most_layers}),
      traits_(traits),
      pricings_(PricingsOf(table_, most_stages)) {
  const SumFloor floor(problem, traits.routes.least);
  if (!floor.knows() || pricings_.empty()) return;
  const SumFloor of_slow = traits.least_layers > 0
                               ? SumFloor::OfHosts(problem, classes[traits.slow_class], traits.routes.least)
                               : floor;
  if (traits.shards_optimizer) gathered_over_summed_ = floor.gathered_over_scattered();
  sum_seconds_ = pricings_.front().SumSeconds(
      [&](const StageForm& stage) { return LeastSumsOf(stage, floor, of_slow); });
}

double PlanKind::LeastSumsOf(const StageForm& stage, const SumFloor& floor, const SumFloor& of_slow) const {
  const ModelConfig& model = table_.problem().shape.model;
  const int degree = table_.kinds()[stage.kind].degree,
            slow_layers = std::max(0, traits_.least_layers + stage.layers - model.layers);
  const double of_layer = static_cast<double>(SegmentElements(model, SegmentOfBlock(BlockOfLayer(0)))),
               slow_elements = slow_layers * of_layer;
  const double seconds = floor.Seconds(static_cast<double>(table_.Parameters(stage)) - slow_elements, degree,
                                       stage.layers - slow_layers + 3) +  // and what is outside of layers
                         of_slow.Seconds(slow_elements, degree, slow_layers);
  return (traits_.shards_optimizer ? 0.5 : 1) * seconds;  // that is scattered at least, and gathered
}

double PlanKind::WayOf(const RouteShape& shape, Trips trips) const {
  const StageForm& first = shape.stages.front();
  const double sums = sum_seconds_.empty() ? 0 : SumsOf(first), gathers = gathered_over_summed_ * sums;
  return trips.ways * WaySeconds(table_, shape) + trips.first_passes * table_.PassSeconds(first) +
         std::max(0.0, sums - table_.BackwardSeconds(first)) +
         std::max(0.0, gathers - table_.ForwardSeconds(first));
}

double PlanKind::MostMicroBatches(const RouteShape& shape, double seconds) const {
  const double left = seconds - WayOf(shape, {});
  if (left < 0) return 0;
  double most = std::numeric_limits<double>::infinity();
  for (const StageForm& stage : shape.stages) {
    const double pass = table_.PassSeconds(stage),
                 ahead = (stage.from_end - 1) * table_.ForwardSeconds(stage);
    most = std::min({most, 1 + (left + ahead) / pass, seconds / pass});
  }
  most = std::floor(most * kSameWorth);
  // The most that its ways and first passes leave time for. Fewer first passes behind more ways may take less, but no fewer ways do.
  const int stages = static_cast<int>(shape.stages.size());
  const auto in_time = [&](int micro_batches) {
    return WayOf(shape, TripsOf(micro_batches, stages)) <= seconds * kSameWorth;
  };
  if (most <= 1 || in_time(static_cast<int>(most))) return most;
  const int others = static_cast<int>(most) - 1;
  const int ways = GreatestThat(0, others / stages, [&](int of) { return in_time(1 + of * stages); });
  const int passes = GreatestThat(0, std::min(stages - 1, others - ways * stages),
                                  [&](int of) { return in_time(1 + ways * stages + of); });
  return 1 + ways * stages + passes;
}

double PlanKind::SumsOf(const StageForm& stage) const {
  return sum_seconds_[pricings_.front().SumsAt(stage.kind, stage.from_end, stage.layers, stage.first)];
}

}  // namespace medley
