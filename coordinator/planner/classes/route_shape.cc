#include "coordinator/planner/classes/route_shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/base/greatest_that.h"

namespace medley {

bool RouteShape::is_bundle() const {
  return std::any_of(stages.begin(), stages.end(), [](const StageForm& stage) { return stage.units > 1; });
}

int RouteShape::routes() const {
  int routes = 1;
  for (const StageForm& stage : stages) routes = std::lcm(routes, stage.units);
  return routes;
}

bool SameShape(const RouteShape& a, const RouteShape& b) {
  return a.size == b.size && std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                                        [](const StageForm& x, const StageForm& y) {
                                          return x.kind == y.kind && x.layers == y.layers &&
                                                 x.saving == y.saving && x.units == y.units;
                                        });
}

bool FitWithLeast(StageTable& table, RouteShape& shape) {
  return std::all_of(shape.stages.begin(), shape.stages.end(),
                     [&](StageForm& stage) { return table.FitWithLeast(stage); });
}

void NumberStages(RouteShape& shape) {
  // A micro-batch is under way for as long as all stages from this one on need for it, during which each unit begins as many as
  // there are units from there on for each of this stage's.
  int units_from_here = 0;
  for (auto stage = shape.stages.rbegin(); stage != shape.stages.rend(); ++stage) {
    units_from_here += stage->units;
    *stage = {.kind = stage->kind,
              .size = shape.size,
              .layers = stage->layers,
              .first = stage + 1 == shape.stages.rend(),
              .from_end = (units_from_here + stage->units - 1) / stage->units,
              .units = stage->units};
  }
}

// Each layer to where a micro-batch then takes least of the units' time: passes grow with layers.
bool DealLayers(StageTable& table, RouteShape& shape) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto pass_seconds = [&](StageForm stage, int layers) {
    stage.layers = layers;
    return table.FitWithLeast(stage) ? table.PassSeconds(stage) / stage.units : kNever;
  };
  int left = table.problem().shape.model.layers;
  std::vector<double> next;
  for (StageForm& stage : shape.stages) stage.layers = 0;
  NumberStages(shape);
  for (StageForm& stage : shape.stages) {
    stage.layers = stage.first || stage.from_end == 1 ? 0 : 1;
    left -= stage.layers;
    next.push_back(pass_seconds(stage, stage.layers + 1));
  }
  for (; left > 0; --left) {
    const size_t s = std::min_element(next.begin(), next.end()) - next.begin();
    if (next[s] == kNever) return false;
    ++shape.stages[s].layers;
    next[s] = pass_seconds(shape.stages[s], shape.stages[s].layers + 1);
  }
  return left == 0;
}

std::vector<int> DevicesOf(const StageTable& table, const RouteShape& shape) {
  std::vector<int> devices(table.classes().size(), 0);
  for (const StageForm& stage : shape.stages) {
    const StageKind& kind = table.kinds()[stage.kind];
    devices[kind.device_class] += kind.degree * stage.units;
  }
  return devices;
}

double WaySeconds(const StageTable& table, const RouteShape& shape) {
  double seconds = 0;
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    seconds += table.WaySeconds(shape.stages[s]);
    if (s > 0)
      seconds += 2 * table.LeastMessageSeconds(shape.stages[s - 1].kind, shape.stages[s].kind, shape.size);
  }
  return seconds;
}

RouteClock::RouteClock(const StageTable& table, RouteShape shape, std::vector<double> first_forward_seconds)
    : shape_(std::move(shape)),
      sequences_(table.problem().micro_batch_sizes[shape_.size]),
      first_forward_seconds_(std::move(first_forward_seconds)) {
  const std::vector<StageForm>& stages = shape_.stages;
  first_forward_seconds_.resize(stages.size(), 0);
  // Routes fill hosts one after another, so neighbours of a class share one unless a host ends between them.
  std::vector<int> placed(table.classes().size(), 0);
  int host_before = -1, class_before = -1;
  for (size_t s = 0; s < stages.size(); ++s) {
    forward_.push_back(table.ForwardSeconds(stages[s]));
    backward_.push_back(table.BackwardSeconds(stages[s]));
    const StageKind& kind = table.kinds()[stages[s].kind];
    const int on_host = table.classes()[kind.device_class].most_on_host;
    const int host = placed[kind.device_class] / on_host;
    placed[kind.device_class] += kind.degree * stages[s].units;
    if (s > 0) {
      const bool same_host = class_before == kind.device_class && host == host_before;
      message_.push_back(table.MessageSeconds(stages[s - 1].kind, stages[s].kind, shape_.size, same_host));
    }
    host_before = host;
    class_before = kind.device_class;
  }
  int units = 0;
  for (const StageForm& stage : stages) units += stage.units;
  const int turn = shape_.routes(), count = (units + turn - 1) / turn * turn,
            tabulated = count == 1 ? 2 : 2 * count + 2;
  last_backwards_.resize(tabulated);
  period_seconds_ = shape_.is_bundle() ? PeriodAt(tabulated, count) : SettledPeriod();
}

// What each of the last `count` took in the mean.
double RouteClock::PeriodAt(int micro_batches, int count) const {
  const std::vector<double>&last = Simulated(micro_batches), &before = Simulated(micro_batches - count);
  double period = 0;
  for (size_t s = 0; s < last.size(); ++s) period = std::max(period, (last[s] - before[s]) / count);
  return period;
}

// Under 1F1B a micro-batch that a stage is done with lets one more begin there. Of neighbouring stages s to t the last one takes turns
// with what the first one sends, so that t - s + 1 micro-batches are between them at most: each such turn takes all their passes, and
// the messages between them both ways. All circles of what waits for what are such turns, so the longest mean of one is what a
// micro-batch takes in the end (Baccelli et al. 1992, Synchronization and Linearity, section 3.2.4); pipelines get there only after a while.
double RouteClock::SettledPeriod() const {
  double period = 0;
  for (size_t first = 0; first < forward_.size(); ++first) {
    double turn = 0;
    for (size_t last = first; last < forward_.size(); ++last) {
      turn += forward_[last] + backward_[last] + (last > first ? 2 * message_[last - 1] : 0);
      period = std::max(period, turn / static_cast<double>(last - first + 1));
    }
  }
  return period;
}

const std::vector<double>& RouteClock::Simulated(int micro_batches) const {
  std::vector<double>& known = last_backwards_[micro_batches - 1];
  if (known.empty()) known = Simulate(micro_batches);
  return known;
}

std::vector<double> RouteClock::Simulate(int micro_batches) const {
  struct Unit {
    int stage = 0, place = 0, count = 0;  // of its micro-batches
    int forwards = 0, backwards = 0;      // that have been run
    double free = 0;
  };
  const int stages = static_cast<int>(forward_.size());
  std::vector<Unit> units;
  for (int s = 0; s < stages; ++s) {
    const int all = shape_.stages[s].units;
    for (int place = 0; place < all; ++place)
      units.push_back({s, place, std::max(0, micro_batches - place + all - 1) / all});
  }
  constexpr double kNotYet = -1;
  // By stage and micro-batch.
  std::vector<double> forward_end(static_cast<size_t>(stages) * micro_batches, kNotYet),
      backward_end(forward_end.size(), kNotYet);
  bool moved = true;
  while (moved) {
    moved = false;
    for (Unit& unit : units) {
      const int s = unit.stage;
      const StageForm& stage = shape_.stages[s];
      const size_t own = static_cast<size_t>(s) * micro_batches;
      const int under_way = std::min(stage.from_end, unit.count);
      for (;;) {
        const int forward = unit.place + unit.forwards * stage.units,
                  backward = unit.place + unit.backwards * stage.units;
        const bool is_forward = unit.forwards < unit.count && unit.forwards - unit.backwards < under_way;
        if (is_forward) {
          const double sent = s > 0 ? forward_end[own - micro_batches + forward] : 0;
          if (sent == kNotYet) break;
          const double ready = s > 0 ? sent + message_[s - 1] : 0;
          unit.free = std::max(unit.free, ready) + forward_[s];
          if (unit.forwards == 0) unit.free = std::max(unit.free, first_forward_seconds_[s]);
          forward_end[own + forward] = unit.free;
          ++unit.forwards;
        } else {
          if (unit.backwards == unit.count) break;
          const bool last = s == stages - 1;
          const double sent = last ? 0 : backward_end[own + micro_batches + backward];
          if (sent == kNotYet) break;
          unit.free = std::max(unit.free, last ? 0 : sent + message_[s]) + backward_[s];
          backward_end[own + backward] = unit.free;
          ++unit.backwards;
        }
        moved = true;
      }
    }
  }
  std::vector<double> last_backwards(stages, 0);
  for (const Unit& unit : units) last_backwards[unit.stage] = std::max(last_backwards[unit.stage], unit.free);
  return last_backwards;
}

double RouteClock::LastBackwardSeconds(int stage, int micro_batches) const {
  const int tabulated = static_cast<int>(last_backwards_.size());
  if (micro_batches <= tabulated) return Simulated(micro_batches)[stage];
  return Simulated(tabulated)[stage] + (micro_batches - tabulated) * period_seconds_;
}

double RouteClock::Seconds(int micro_batches, const std::vector<double>& after_seconds) const {
  double end = 0;
  for (size_t s = 0; s < after_seconds.size(); ++s)
    end = std::max(end, LastBackwardSeconds(static_cast<int>(s), micro_batches) + after_seconds[s]);
  return end;
}

int RouteClock::MicroBatchesBy(double seconds, const std::vector<double>& after_seconds) const {
  const int tabulated = static_cast<int>(last_backwards_.size());
  const double at_last = Seconds(tabulated, after_seconds);
  if (at_last <= seconds) {
    constexpr double kMostMicroBatches = 1 << 20;  // more than any batch has
    const double more = period_seconds_ > 0 ? std::floor((seconds - at_last) / period_seconds_) : 0;
    return tabulated + static_cast<int>(std::min(more, kMostMicroBatches));
  }
  return GreatestThat(0, tabulated - 1, [&](int done) { return Seconds(done, after_seconds) <= seconds; });
}

}  // namespace medley
