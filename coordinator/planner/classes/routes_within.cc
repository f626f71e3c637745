#include "coordinator/planner/classes/routes_within.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Counts of stages of each kind, times kinds.
constexpr int64_t kMostStates = 400'000;
// Where there are so many devices for each of the model's blocks a route need not take all, and prices tell which.
constexpr double kMostStages = 1.2;
// Periods that are looked at beside the least one are so far apart.
constexpr double kPeriodRatio = 1.04;
constexpr int kPeriods = 4;

class CountedRoutes {
 public:
  CountedRoutes(const ShapePricing& pricing, const std::vector<int>& devices)
      : pricing_(pricing), layers_(pricing.layers()) {
    const std::vector<StageKind>& kinds = pricing.table().kinds();
    for (int k = 0; k < static_cast<int>(kinds.size()); ++k) {
      const int stages = std::min(devices[kinds[k].device_class] / kinds[k].degree, pricing.most_stages());
      if (stages == 0) continue;
      kinds_.push_back(k);
      most_.push_back(stages);
    }
    for (const int most : most_) {
      strides_.push_back(counts_);
      if (counts_ <= kMostStates) counts_ *= most + 1;
    }
  }

  bool CanSearch() const {
    const std::vector<StageKind>& kinds = pricing_.table().kinds();
    const bool one_degree = std::all_of(kinds.begin(), kinds.end(), [&](const StageKind& kind) {
      return kind.degree == kinds.front().degree;
    });
    int stages = 0;
    for (const int most : most_) stages += most;
    return one_degree && !kinds_.empty() && stages <= kMostStages * (layers_ + 2) &&
           counts_ * static_cast<int64_t>(kinds_.size()) <= kMostStates;
  }

  // The route with the shortest way of those with no longer passes.
  std::optional<RouteShape> Within(double most_pass_seconds) {
    most_pass_seconds_ = most_pass_seconds;
    Tabulate();
    if (!HoldAll()) return std::nullopt;
    rests_.assign(counts_ * kinds_.size(), {});
    Whole best;
    std::vector<int> count(kinds_.size(), 0);
    for (int64_t at = 1; at < counts_; ++at) {
      for (size_t k = 0; ++count[k] > most_[k]; ++k) count[k] = 0;
      int stages = 0;
      for (const int of_kind : count) stages += of_kind;
      if (stages > pricing_.most_stages()) continue;
      for (size_t kind = 0; kind < kinds_.size(); ++kind) {
        if (count[kind] > 0) Extend(at, static_cast<int>(kind), stages, best);
      }
    }
    if (best.way_seconds == kNever) return std::nullopt;
    return Shape(best);
  }

 private:
  // The stages behind some place of a route, the first of them of one kind.
  struct Rest {
    int layers = -1;  // -1: there is none
    int next = -1;    // the kind behind that; -1: the route ends
    double way_seconds = 0;
  };
  struct Whole {
    int64_t at = 0;
    int kind = 0, next = -1, stages = 0, first_layers = 0;
    double way_seconds = kNever;
  };

  // How many layers a stage holds, by kind and place; -1: it cannot be.
  void Tabulate() {
    most_layers_.clear();
    for (const int kind : kinds_) {
      for (int from_end = 1; from_end <= pricing_.most_stages(); ++from_end) {
        for (const bool first : {false, true}) {
          int most = layers_;
          while (most >= 0 && pricing_.PassSeconds(kind, from_end, most, first) > most_pass_seconds_) --most;
          most_layers_.push_back(most);
        }
      }
    }
  }
  // Whether all stages that there are would hold the model, were each where it holds most.
  bool HoldAll() const {
    int all = 0;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      int most = 0;
      for (int from_end = 1; from_end <= pricing_.most_stages(); ++from_end) {
        for (const bool first : {false, true})
          most = std::max(most, MostLayers(static_cast<int>(kind), from_end, first));
      }
      all += most_[kind] * most;
    }
    return all >= layers_;
  }
  int MostLayers(int kind, int from_end, bool first) const {
    return most_layers_[(static_cast<size_t>(kind) * pricing_.most_stages() + from_end - 1) * 2 +
                        (first ? 1 : 0)];
  }
  bool Passes(int kind, int from_end, int layers, bool first) const {
    return pricing_.PassSeconds(kind, from_end, layers, first) <= most_pass_seconds_;
  }
  Rest& RestAt(int64_t at, int kind) { return rests_[at * kinds_.size() + kind]; }

  // With a stage of `kind` in front of what `at` has without it.
  void Extend(int64_t at, int kind, int stages, Whole& best) {
    const int64_t behind = at - strides_[kind];
    const int most = MostLayers(kind, stages, /*first=*/false),
              most_first = MostLayers(kind, stages, /*first=*/true);
    Rest& here = RestAt(at, kind);
    for (int next = stages == 1 ? -1 : 0; next < (stages == 1 ? 0 : static_cast<int>(kinds_.size()));
         ++next) {
      const Rest rest = next < 0 ? Rest{.layers = 0} : RestAt(behind, next);
      if (rest.layers < 0) continue;
      double way = rest.way_seconds;
      if (next >= 0)
        way += 2 * pricing_.table().LeastMessageSeconds(kinds_[kind], kinds_[next], pricing_.size());
      const int left = layers_ - rest.layers;
      // It may be that some layers fit and fewer do not: with windows for those in host memory.
      if (left <= most_first && Passes(kinds_[kind], stages, left, /*first=*/true)) {
        const double whole = way + pricing_.PassSeconds(kinds_[kind], stages, left, /*first=*/true);
        if (whole < best.way_seconds) best = {at, kind, next, stages, left, whole};
      }
      const int layers = std::min(most, left);
      if (layers < 0 || !Passes(kinds_[kind], stages, layers, /*first=*/false)) continue;
      way += pricing_.PassSeconds(kinds_[kind], stages, layers, /*first=*/false);
      const int all = rest.layers + layers;
      if (all > here.layers || (all == here.layers && way < here.way_seconds)) here = {all, next, way};
    }
  }

  RouteShape Shape(const Whole& whole) {
    RouteShape shape{.size = pricing_.size()};
    shape.stages.push_back(
        pricing_.Form(kinds_[whole.kind], whole.stages, whole.first_layers, /*first=*/true));
    int64_t at = whole.at - strides_[whole.kind];
    int kind = whole.next;
    for (int from_end = whole.stages - 1; from_end >= 1; --from_end) {
      const Rest& rest = RestAt(at, kind);
      at -= strides_[kind];
      const int behind = rest.next < 0 ? 0 : RestAt(at, rest.next).layers;
      shape.stages.push_back(pricing_.Form(kinds_[kind], from_end, rest.layers - behind, /*first=*/false));
      kind = rest.next;
    }
    return shape;
  }

  const ShapePricing& pricing_;
  const int layers_;
  std::vector<int> kinds_;        // of which there are some, of the table's
  std::vector<int> most_;         // stages of each
  std::vector<int64_t> strides_;  // of each
  int64_t counts_ = 1;
  double most_pass_seconds_ = 0;
  std::vector<int> most_layers_;
  std::vector<Rest> rests_;  // by counts and kind
};

}  // namespace

std::vector<RouteShape> RoutesWithin(const ShapePricing& pricing, const std::vector<int>& devices) {
  CountedRoutes routes(pricing, devices);
  if (!routes.CanSearch()) return {};
  const std::vector<double> times = pricing.PassTimes(1);
  // The least period with which there is one.
  std::optional<RouteShape> shortest;
  size_t low = 0, high = times.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    std::optional<RouteShape> shape = routes.Within(times[middle]);
    if (shape) {
      high = middle;
      shortest = std::move(shape);
    } else {
      low = middle + 1;
    }
  }
  std::vector<RouteShape> shapes;
  if (!shortest) return shapes;
  shapes.push_back(*std::move(shortest));
  double period = times[low];
  for (int i = 1; i < kPeriods; ++i) {
    period *= kPeriodRatio;
    std::optional<RouteShape> shape = routes.Within(period);
    if (shape && !SameShape(*shape, shapes.back())) shapes.push_back(*std::move(shape));
  }
  return shapes;
}

}  // namespace medley
