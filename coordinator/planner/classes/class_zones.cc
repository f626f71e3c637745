#include "coordinator/planner/classes/class_zones.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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

// A class that holds what is in front of the others, and how many of its devices share a layer; 0: the class is left out.
struct Zone {
  int device_class = 0, degree = 0;
};

struct Zones {
  int size = 0;  // index into PlanningProblem::micro_batch_sizes
  std::vector<Zone> front_to_back;
  double seconds = kNever;  // estimated
};
bool IsFaster(const Zones& a, const Zones& b) { return a.seconds < b.seconds; }

// For one number of routes: of all orders of the classes, or, where these are too many, of those that go round, the best for units of
// one device and for wider ones. From these, local search: another degree of a class, two classes in each other's places. The
// first neighbour that is faster is taken, until there is none.
class ZoneSearch {
 public:
  ZoneSearch(StageTable& table, int routes, int most_stages, const std::atomic<bool>* stop)
      : table_(table),
        routes_(routes),
        most_stages_(most_stages),
        stop_(stop),
        kinds_of_(table.classes().size()) {
    for (int k = 0; k < static_cast<int>(table.kinds().size()); ++k) {
      const StageKind& kind = table.kinds()[k];
      if (DevicesOfRoute(kind.device_class) >= kind.degree) kinds_of_[kind.device_class].push_back(k);
    }
    for (int c = 0; c < static_cast<int>(kinds_of_.size()); ++c) {
      if (!kinds_of_[c].empty()) classes_.push_back(c);
    }
  }

  std::vector<ClassedPlan> Run(size_t most_plans) {
    std::vector<Zones> found = Beginnings();
    for (Zones& zones : found) {
      while (Step(zones)) {
      }
    }
    if (Stopped()) return {};
    std::stable_sort(found.begin(), found.end(), IsFaster);
    std::vector<ClassedPlan> plans;
    std::set<std::string> seen;
    for (const Zones& zones : found) {
      std::string key = absl::StrCat(zones.size);
      for (const Zone& zone : zones.front_to_back) {
        if (zone.degree > 0) absl::StrAppend(&key, ",", zone.device_class, ":", zone.degree);
      }
      if (!seen.insert(key).second) continue;
      ClassedPlan plan = PlanOf(zones);
      if (!plan.empty()) plans.push_back(std::move(plan));
      if (plans.size() == most_plans) break;
    }
    return plans;
  }

 private:
  bool Stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  int DevicesOfRoute(int device_class) const { return table_.classes()[device_class].devices / routes_; }

  std::vector<Zones> Beginnings() {
    const PlanningProblem& problem = table_.problem();
    std::vector<Zones> all;
    for (const std::vector<int>& order : Orders()) {
      for (int size = 0; size < static_cast<int>(problem.micro_batch_sizes.size()); ++size) {
        if (!DividesBatch(problem, problem.micro_batch_sizes[size])) continue;
        for (const int width : kWidths) {
          if (Stopped()) return {};
          Zones zones{size, {}};
          for (const int c : order) zones.front_to_back.push_back({c, WidestOf(c, width)});
          zones.seconds = Seconds(zones);
          if (zones.seconds < kNever) all.push_back(std::move(zones));
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

  int WidestOf(int device_class, int width) const {
    int widest = 0;
    for (const int kind : kinds_of_[device_class]) {
      const int degree = table_.kinds()[kind].degree;
      if (degree <= width) widest = std::max(widest, degree);
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
      int& degree = next.front_to_back[z].degree;
      for (const int kind : kinds_of_[zones.front_to_back[z].device_class]) {
        degree = table_.kinds()[kind].degree;
        if (degree != zones.front_to_back[z].degree && is_faster()) return true;
      }
      degree = 0;
      if (zones.front_to_back[z].degree != 0 && is_faster()) return true;
      degree = zones.front_to_back[z].degree;
      for (size_t other = z + 1; other < zones.front_to_back.size(); ++other) {
        std::swap(next.front_to_back[z], next.front_to_back[other]);
        if (is_faster()) return true;
        std::swap(next.front_to_back[z], next.front_to_back[other]);
      }
    }
    return false;
  }

  RouteShape ShapeOf(const Zones& zones) const {
    RouteShape shape{.size = zones.size};
    for (const Zone& zone : zones.front_to_back) {
      for (const int kind : kinds_of_[zone.device_class]) {
        if (table_.kinds()[kind].degree != zone.degree) continue;
        const int stages = DevicesOfRoute(zone.device_class) / zone.degree;
        shape.stages.insert(shape.stages.end(), stages, {.kind = kind});
      }
    }
    return shape;
  }
  // Whether the model fits, with its layers dealt.
  bool Fit(RouteShape& shape) {
    return !shape.stages.empty() && static_cast<int>(shape.stages.size()) <= most_stages_ &&
           DealLayers(table_, shape) && FitWithLeast(table_, shape);
  }

  double Seconds(const Zones& zones) {
    RouteShape shape = ShapeOf(zones);
    if (!Fit(shape)) return kNever;
    const PlanningProblem& problem = table_.problem();
    const int at_once = routes_ * problem.micro_batch_sizes[zones.size];
    const int micro_batches = (problem.shape.global_batch_sequences + at_once - 1) / at_once;
    const std::vector<double> no_sums(shape.stages.size(), 0);
    return RouteClock(table_, std::move(shape)).Seconds(micro_batches, no_sums);
  }

  // Empty: sizes of micro-batches do not add up to the batch.
  ClassedPlan PlanOf(const Zones& zones) {
    RouteShape shape = ShapeOf(zones);
    if (!Fit(shape)) return {};
    const std::vector<double> no_sums(shape.stages.size(), 0);
    const RouteClock clock(table_, std::move(shape));
    return DealMicroBatches({{&clock, &no_sums, routes_}}, table_.problem().shape.global_batch_sequences,
                            1e-6);
  }

  StageTable& table_;
  const int routes_, most_stages_;
  const std::atomic<bool>* const stop_;
  std::vector<std::vector<int>> kinds_of_;  // of each class, that a route has devices for
  std::vector<int> classes_;                // that have one
};

}  // namespace

std::vector<ClassedPlan> PlansOfZones(StageTable& table, int routes, int most_stages, size_t most_plans,
                                      const std::atomic<bool>* stop) {
  return ZoneSearch(table, routes, most_stages, stop).Run(most_plans);
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
