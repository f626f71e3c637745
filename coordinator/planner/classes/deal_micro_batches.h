#pragma once
#include <limits>
#include <vector>

#include "coordinator/planner/classes/route_shape.h"

namespace medley {

// So many routes, or bundles, of one shape, each with so many micro-batches.
struct ShapedRoutes {
  RouteShape shape;
  int routes = 0;
  int micro_batches = 0;
};

// Devices of each class that all of them take.
std::vector<int> DevicesOf(const StageTable& table, const std::vector<ShapedRoutes>& routes);
// Of all shapes; a bundle is one replica, whose stages have several units.
int ReplicasOf(const std::vector<ShapedRoutes>& routes);
// Of the plan that they are.
int RoutesOf(const std::vector<ShapedRoutes>& routes);

struct ClassedPlan {
  std::vector<ShapedRoutes> routes;
  double estimated_seconds = 0;
  bool empty() const { return routes.empty(); }
  int replicas() const { return ReplicasOf(routes); }
};

bool HasBundles(const ClassedPlan& plan);

// So many routes that end so long behind their last backwards, by stage. Pointers that are never null.
struct TimedRoutes {
  const RouteClock* clock = nullptr;
  const std::vector<double>* after_seconds = nullptr;
  int routes = 0;
};

// Gives the routes their micro-batches, so that the last one is done as soon as can be; `sequences` in all. No route is done before
// `least_seconds`. Empty: sizes of micro-batches do not add up to them, or no route is ever done. Pure.
ClassedPlan DealMicroBatches(const std::vector<TimedRoutes>& all, double sequences, double least_seconds);

// The least time for which `is_done` holds, by halving: from `low` on, to the relative tolerance. Infinite if it is
// not for any that is near enough.
template <typename IsDone>
double LeastSeconds(double low, double tolerance, const IsDone& is_done) {
  constexpr int kMostDoublings = 60;
  double high = low;
  for (int doublings = 0; !is_done(high); ++doublings) {
    if (doublings == kMostDoublings) return std::numeric_limits<double>::infinity();
    low = high;
    high *= 1.5;
  }
  while (high - low > tolerance * high) {
    const double middle = (low + high) / 2;
    (is_done(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace medley
