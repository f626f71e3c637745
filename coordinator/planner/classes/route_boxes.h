#pragma once
#include <atomic>
#include <limits>
#include <queue>
#include <vector>

#include "coordinator/planner/classes/optimistic_routes.h"

namespace medley {

// Routes of some period, micro-batches and stages.
struct Box {
  int pricing = 0;
  double least_period = 0, most_period = 0;
  int least_m = 0, most_m = 0;
  int least_stages = 1, most_stages = std::numeric_limits<int>::max();
  int split_stages = 0;  // routes of more are much else than those of as many; 0: they are not
  int stages = 0;        // of the one that was found last
  bool exact = false;    // what prices of seconds leave open is known
  double seconds = 0;    // no route is worth its price before
  int number = 0;
  bool operator<(const Box& other) const {  // the least time on top
    return seconds != other.seconds ? seconds > other.seconds : number > other.number;
  }
};

// Routes are put into boxes by period, e0 <= e <= e1, and by how many micro-batches they do by T, m0 <= m <= m1. In a
// box its price and W add up over stages, and which stages it may have is known: those whose period with m0 is at
// most e1. So the dynamic programme of
// price_shapes.h finds the T up to which no route of the box is worth its price, for T is not in its question. Boxes
// with the least such T are cut in two until they are narrow: best first, as in branch and bound. By Lagrange a cheap
// route with a long way and a dear one with a short way make up one that is neither; where they have unlike numbers of
// stages, boxes are cut between these, too.
class BoxSearch {
 public:
  // `prices`: of a device of each class, in sequences; likewise of a route.
  BoxSearch(PlanKind& kind, std::vector<int> devices, std::vector<double> prices, double route_price,
            double upper_seconds, const std::atomic<bool>* stop);

  // `parts`: boxes that have all routes, those of a search at other prices; none: all routes are one. What is found once
  // `stop` is true is no bound.
  double Run(const std::vector<Box>& parts);

  // Those that it has come to.
  std::vector<Box> Parts() const;

  // Routes that are worth more than their prices soon after that.
  std::vector<RouteShape> Worst();

 private:
  struct Cheapest {
    double price = 0, way_seconds = 0;
    int stages = 0;
  };

  int MostStages(const Box& box) const;
  // Of a narrow box: when the first of its routes that cost no more than they are worth does its micro-batches.
  void AddExactly(Box box);

  // 0: nothing is gained by it. Of fewer stages less is under way.
  int SplitStages(const Box& box) const;

  int Sequences(int pricing) const { return table_.problem().micro_batch_sizes[pricings_[pricing].size()]; }

  // All routes with micro-batches of one size.
  void AddAll(int pricing);
  void Add(Box box);

  // No route of the box does m micro-batches before W + (m - 1) e0, or before (q + 1) W + r p. Each by itself has a least
  // time, and the later of both holds.
  // False: there is nothing to be found in it.
  bool Bound(Box& box);

  // None is worth its price with fewer than m in sequences. So, by Lagrange, with seconds of the way priced at u none is
  // worth it until
  //   (the least of price + u W, less what m are worth) / u + (m - 1) e0,
  // with m1 for m up to that u with which it no longer counts, and m0 beyond. Less u is better for routes that cost
  // more than m are worth, and worse for the others: the best u is where one of either kind are alike. Where several ways follow
  // each other these are W, and there is no e0.
  // False: there is nothing to be found in it.
  bool BoundBy(Box& box, Trips trips);

  ShapePricing::Question About(const Box& box, Trips trips, const std::vector<double>& prices,
                               double price_of_second, double most_cost) const;

  // False: no route of the box costs less than that.
  bool Ask(const Box& box, Trips trips, const std::vector<double>& prices, double price_of_second,
           double most_cost, Cheapest& cheapest);

  const PlanKind& kind_;
  std::vector<ShapePricing>& pricings_;
  const StageTable& table_;
  const std::vector<int> devices_;
  const std::vector<double> prices_, no_prices_;
  const double route_price_;
  const double upper_seconds_;
  const std::atomic<bool>* const stop_;
  std::priority_queue<Box> boxes_;
  std::vector<Box> done_;
  int questions_ = 0;
};

}  // namespace medley
