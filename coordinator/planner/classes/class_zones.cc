#include "coordinator/planner/classes/class_zones.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/planner/classes/ordered_seconds.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What is less faster is as fast.
constexpr double kFaster = 1 - 1e-6;
// So many classes are put in all orders, and so many of the best beginnings are searched from.
constexpr size_t kMostPermuted = 4, kSearched = 8;
constexpr size_t kCountsInOctave = 2;
// Of units at the beginning.
constexpr int kWidths[] = {1, 2, 4, 8};
// Of a bundle. More take long to put in order.
constexpr int kMostTurns = 12, kMostUnits = 24;

constexpr int kLeftOut = -1;

// A class that holds what is in front of the others, and which of its kinds (StageTimes::kinds) the stages are of; or kLeftOut. Of bundles
// also how many stages there are: fewer than one device behind another would be.
struct Zone {
  int device_class = 0, kind = kLeftOut;
  int stages = std::numeric_limits<int>::max();
};

struct Zones {
  int size = 0;  // index into PlanningProblem::micro_batch_sizes
  std::vector<Zone> front_to_back;
  double seconds = kNever;  // estimated
};
bool IsFaster(const Zones& a, const Zones& b) { return a.seconds < b.seconds; }

using ZonesKey = std::vector<int>;

// For one number of routes: of all orders of the classes, or, where these are too many, of those that go round, the best for units of
// one device and for wider ones. From these, local search: another degree of a class, two classes in each other's places. The
// first neighbour that is faster is taken, until there is none.
class ZoneSearch {
 public:
  // `sums`: null, or those of zones and bundles for passes in any order.
  ZoneSearch(StageTable& table, SumsOfClasses* sums, int routes, int most_stages,
             const std::atomic<bool>* stop)
      : table_(table),
        routes_(routes),
        most_stages_(most_stages),
        stop_(stop),
        kinds_of_(table.classes().size()) {
    if (sums != nullptr) ordered_.emplace(table, *sums, routes);
    for (int k = 0; k < static_cast<int>(table.kinds().size()); ++k) {
      const StageKind& kind = table.kinds()[k];
      if (DevicesOfRoute(kind.device_class) >= kind.degree) kinds_of_[kind.device_class].push_back(k);
    }
    for (int c = 0; c < static_cast<int>(kinds_of_.size()); ++c) {
      if (!kinds_of_[c].empty()) classes_.push_back(c);
    }
  }

  std::vector<ClassedPlan> Run(size_t most_plans) {
    std::vector<Zones> found;
    // Those on the way, too: sums, of which nothing is known here, may make one of them the fastest.
    for (Zones& zones : Beginnings()) {
      do {
        found.push_back(zones);
      } while (Step(zones));
    }
    if (Stopped()) return {};
    std::stable_sort(found.begin(), found.end(), IsFaster);
    std::vector<ClassedPlan> plans;
    std::set<ZonesKey> seen;
    for (const Zones& zones : found) {
      if (!seen.insert(KeyOf(zones)).second) continue;
      ClassedPlan plan = PlanOf(zones);
      if (!plan.empty()) plans.push_back(std::move(plan));
      if (plans.size() == most_plans) break;
    }
    return plans;
  }

 private:
  bool Stopped() const { return IsStopped(stop_); }
  int DevicesOfRoute(int device_class) const { return table_.classes()[device_class].devices / routes_; }

  std::vector<Zones> Beginnings() {
    const PlanningProblem& problem = table_.problem();
    std::vector<Zones> all;
    for (const std::vector<int>& order : Orders()) {
      for (int size = 0; size < static_cast<int>(problem.micro_batch_sizes.size()); ++size) {
        if (!DividesBatch(problem, problem.micro_batch_sizes[size])) continue;
        for (const int width : kWidths) {
          if (Stopped()) return {};
          for (const bool side_by_side : {false, true}) {
            if (side_by_side && !ordered_) continue;
            Zones zones{size, {}};
            for (const int c : order) {
              zones.front_to_back.push_back({c, WidestOf(c, width)});
              if (side_by_side) zones.front_to_back.back().stages = 1;
            }
            zones.seconds = Seconds(zones);
            if (zones.seconds < kNever) all.push_back(std::move(zones));
          }
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), IsFaster);
    all.resize(std::min(all.size(), kSearched));
    return all;
  }

  std::vector<std::vector<int>> Orders() const {
    std::vector<std::vector<int>> orders;
    std::vector<int> order = classes_;
    if (order.size() <= kMostPermuted) {
      do {
        orders.push_back(order);
      } while (std::next_permutation(order.begin(), order.end()));
      return orders;
    }
    for (size_t i = 0; i < order.size(); ++i) {
      orders.push_back(order);
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    return orders;
  }

  // Of the class's kinds with that width or less.
  int WidestOf(int device_class, int width) const {
    int widest = kLeftOut, most = 0;
    for (const int kind : kinds_of_[device_class]) {
      const int degree = table_.kinds()[kind].degree;
      if (degree > width || degree <= most) continue;
      most = degree;
      widest = kind;
    }
    return widest;
  }

  // To a neighbour that is faster; false: there is none.
  bool Step(Zones& zones) {
    if (Stopped()) return false;
    Zones next = zones;
    const auto is_faster = [&] {
      next.seconds = Seconds(next);
      if (!(next.seconds < kFaster * zones.seconds)) return false;
      zones = next;
      return true;
    };
    for (size_t z = 0; z < zones.front_to_back.size(); ++z) {
      const int own = zones.front_to_back[z].kind;
      if (ordered_ && own != kLeftOut) {
        const int stages = StagesOf(zones.front_to_back[z]),
                  most = std::min(most_stages_, MostStagesOf(zones.front_to_back[z]));
        int& others = next.front_to_back[z].stages;
        for (others = 1; others <= most; ++others) {
          if (others != stages && is_faster()) return true;
        }
        others = zones.front_to_back[z].stages;
      }
      int& kind = next.front_to_back[z].kind;
      for (const int other : kinds_of_[zones.front_to_back[z].device_class]) {
        kind = other;
        if (kind != own && is_faster()) return true;
      }
      kind = kLeftOut;
      if (own != kLeftOut && is_faster()) return true;
      kind = own;
      for (size_t other = z + 1; other < zones.front_to_back.size(); ++other) {
        std::swap(next.front_to_back[z], next.front_to_back[other]);
        if (is_faster()) return true;
        std::swap(next.front_to_back[z], next.front_to_back[other]);
      }
    }
    return false;
  }

  // Of one unit each.
  int MostStagesOf(const Zone& zone) const {
    return DevicesOfRoute(zone.device_class) / table_.kinds()[zone.kind].degree;
  }
  // As many where there is no bundle.
  int StagesOf(const Zone& zone) const { return std::min(zone.stages, MostStagesOf(zone)); }

  // Of zones that are the same.
  ZonesKey KeyOf(const Zones& zones) const {
    ZonesKey key = {zones.size};
    for (const Zone& zone : zones.front_to_back) {
      if (zone.kind == kLeftOut) continue;
      key.push_back(zone.kind);
      key.push_back(StagesOf(zone));
    }
    return key;
  }

  // None: the model does not fit.
  std::optional<RouteShape> ShapeOf(const Zones& zones) {
    RouteShape shape{.size = zones.size};
    int units = 0;
    for (const Zone& zone : zones.front_to_back) {
      if (zone.kind == kLeftOut) continue;
      const int stages = StagesOf(zone);
      const int side_by_side = MostStagesOf(zone) / stages;
      units += stages * side_by_side;
      shape.stages.insert(shape.stages.end(), stages, {.kind = zone.kind, .units = side_by_side});
    }
    if (shape.stages.empty() || static_cast<int>(shape.stages.size()) > most_stages_) return std::nullopt;
    // Each of its routes has a micro-batch.
    if (ordered_ && (units > kMostUnits || shape.routes() > std::min(kMostTurns, MicroBatches(shape) - 1)))
      return std::nullopt;
    if (!DealLayers(table_, shape) || !FitWithLeast(table_, shape)) return std::nullopt;
    if (ordered_) ShiftLayers(shape);
    return shape;
  }

  // Of each route.
  int MicroBatches(const RouteShape& shape) const {
    const PlanningProblem& problem = table_.problem();
    const int at_once = routes_ * problem.micro_batch_sizes[shape.size];
    return (problem.shape.global_batch_sequences + at_once - 1) / at_once;
  }

  // In any order of passes.
  double OrderedSeconds(const RouteShape& shape) {
    return ordered_->LeastSeconds(shape, MicroBatches(shape));
  }

  double Seconds(const Zones& zones) {
    // Of several beginnings searches come to the same.
    const auto [known, is_new] = seconds_.try_emplace(KeyOf(zones), kNever);
    if (is_new) known->second = SecondsOf(zones);
    return known->second;
  }

  double SecondsOf(const Zones& zones) {
    const std::optional<RouteShape> shape = ShapeOf(zones);
    if (!shape) return kNever;
    if (ordered_) return OrderedSeconds(*shape);
    return RouteClock(table_, *shape)
        .Seconds(MicroBatches(*shape), std::vector<double>(shape->stages.size(), 0));
  }

  // With so many more; -1: it does not fit.
  StageForm WithLayers(StageForm stage, int more) {
    stage.layers += more;
    if (!table_.FitWithLeast(stage)) stage.layers = -1;
    return stage;
  }

  // Layers that make it faster where they are on another stage.
  void ShiftLayers(RouteShape& shape) {
    double seconds = OrderedSeconds(shape);
    const auto shift = [&] {
      for (size_t from = 0; from < shape.stages.size(); ++from) {
        const int least = from > 0 && from + 1 < shape.stages.size() ? 1 : 0;
        if (shape.stages[from].layers == least) continue;
        const StageForm shorter = WithLayers(shape.stages[from], -1);
        if (shorter.layers < 0) continue;
        for (size_t to = 0; to < shape.stages.size(); ++to) {
          if (to == from) continue;
          const StageForm longer = WithLayers(shape.stages[to], 1);
          if (longer.layers < 0) continue;
          const StageForm own = std::exchange(shape.stages[from], shorter),
                          other = std::exchange(shape.stages[to], longer);
          const double next_seconds = OrderedSeconds(shape);
          if (next_seconds < kFaster * seconds) {
            seconds = next_seconds;
            return true;
          }
          shape.stages[from] = own;
          shape.stages[to] = other;
        }
      }
      return false;
    };
    while (shift()) {
    }
  }

  // Empty: sizes of micro-batches do not add up to the batch; or it is no bundle, where one is wanted.
  ClassedPlan PlanOf(const Zones& zones) {
    std::optional<RouteShape> shape = ShapeOf(zones);
    if (!shape) return {};
    // A bundle that falls apart is several.
    int apart = 0;
    for (const StageForm& stage : shape->stages) apart = std::gcd(apart, stage.units);
    for (StageForm& stage : shape->stages) stage.units /= apart;
    const RouteClock clock(table_, *std::move(shape));
    const std::vector<double> no_sums(clock.shape().stages.size(), 0);
    ClassedPlan plan = DealMicroBatches({{&clock, &no_sums, apart * routes_}},
                                        table_.problem().shape.global_batch_sequences, 1e-6);
    if (ordered_) plan.estimated_seconds = zones.seconds;
    return plan;
  }

  StageTable& table_;
  const int routes_;
  const int most_stages_;
  const std::atomic<bool>* const stop_;
  std::vector<std::vector<int>> kinds_of_;  // of each class, that a route has devices for
  std::vector<int> classes_;                // that have one
  std::map<ZonesKey, double> seconds_;
  std::optional<OrderedReplicas> ordered_;  // none: under 1F1B, and no bundles
};

}  // namespace

std::vector<ClassedPlan> PlansOfZones(StageTable& table, int routes, int most_stages, size_t most_plans,
                                      const std::atomic<bool>* stop) {
  return ZoneSearch(table, /*sums=*/nullptr, routes, most_stages, stop).Run(most_plans);
}

std::vector<ClassedPlan> PlansOfOrderedZones(StageTable& table, SumsOfClasses& sums, int bundles,
                                             int most_stages, size_t most_plans,
                                             const std::atomic<bool>* stop) {
  return ZoneSearch(table, &sums, bundles, most_stages, stop).Run(most_plans);
}

std::vector<int> CountsForZones(const std::vector<DeviceClass>& classes, const std::vector<double>& rates,
                                int most_routes) {
  std::vector<int> counts;
  for (int most = most_routes; most >= 1; most /= 2) {
    std::vector<std::pair<double, int>> used;  // less than nothing, so that the most is the first
    for (int routes = most / 2 + 1; routes <= most; ++routes) {
      double rate = 0;
      for (size_t c = 0; c < classes.size(); ++c) {
        const int devices = classes[c].devices;
        rate += rates[c] * (devices / routes * routes) / devices;
      }
      if (rate > 0) used.push_back({-rate, -routes});
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(used.size(), kCountsInOctave));
    std::partial_sort(used.begin(), used.begin() + count, used.end());
    for (std::ptrdiff_t i = 0; i < count; ++i) counts.push_back(-used[i].second);
  }
  return counts;
}

}  // namespace medley
