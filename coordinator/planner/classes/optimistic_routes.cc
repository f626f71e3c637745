#include "coordinator/planner/classes/optimistic_routes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "coordinator/planner/classes/sum_floor.h"
#include "runtime/base/greatest_that.h"

namespace medley {

Trips TripsOf(int micro_batches, int most_stages) {
  const int ways = (micro_batches - 1) / most_stages;
  return ways == 0 ? Trips{} : Trips{1 + ways, (micro_batches - 1) % most_stages};
}

PlanKind::PlanKind(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                   StageMemories& memories, bool layers_on_hosts, int most_stages, RouteCount routes,
                   bool shards_optimizer)
    : table_(problem, classes, memories,
             // No replica carries less of it: the tied embedding may have two holders a route.
             shards_optimizer ? 0.5 / routes.most : 1,
             {.layers_on_hosts = layers_on_hosts, .of_bounds = true}),
      routes_(routes),
      pricings_(PricingsOf(table_, most_stages)) {
  const SumFloor floor(problem, routes.least);
  if (!floor.knows() || pricings_.empty()) return;
  if (shards_optimizer) gathered_over_summed_ = floor.gathered_over_scattered();
  const double part = shards_optimizer ? 0.5 : 1;  // that is scattered at least, and gathered
  sum_seconds_ = pricings_.front().SumSeconds([&](const StageForm& stage) {
    return part * floor.Seconds(static_cast<double>(table_.Parameters(stage)),
                                table_.kinds()[stage.kind].degree,
                                stage.layers + 3);  // and what is outside of layers
  });
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
