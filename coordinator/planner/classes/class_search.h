#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/price_shapes.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/sum_model.h"
#include "runtime/base/stop_flag.h"

namespace medley {

// Which routes make up the fastest step, by counts of devices of each class (Dantzig and Wolfe 1960; Gilmore and
// Gomory 1961: columns are route shapes). What a route does by a time T follows from its shape alone, so the least T
// by which routes of some shapes do the whole batch with the devices there are is a linear programme over shapes,
// with shapes that are priced as they are needed; whole numbers of routes are searched by branch and bound.
class ClassSearch {
 public:
  // All must outlive it, as must `stop`: once it is true no more shapes are looked for. `cuts`: of stages
  // (ShapePricing::Question).
  ClassSearch(StageTable& table, std::vector<ShapePricing>& pricings, const SumModel& sums,
              std::vector<int> cuts, RouteCount routes, const std::atomic<bool>* stop);

  // Shapes to begin with.
  void Suggest(RouteShape shape);

  // Prices shapes until they gain little.
  void Relax();

  // Plans that may be the fastest, by estimates that take sums of gradients for alike on all routes: of all shapes
  // that were priced; and for each of the best shapes by itself, of those cut nested with it. None: nothing fits.
  std::vector<ClassedPlan> Run();

  // The whole batch on so many routes of each shape, micro-batches as even as they end.
  ClassedPlan Distribute(const std::vector<ShapedRoutes>& routes);

  // Those that came near to being worth their devices.
  std::vector<RouteShape> Shapes() const;

  // No plan of such stages is done sooner: not if every device computed all the time, what it is best at, at the best
  // degree and size that it was measured with, and nothing else took time.
  double LowerBoundSeconds() const { return lower_bound_seconds_; }

  // By which fractions of routes do the batch; infinite: nothing fits.
  double relaxed_seconds() const { return relaxed_seconds_; }

  int64_t priced() const { return priced_; }

 private:
  struct Column {
    RouteClock clock;
    std::vector<double> uses;  // of resources
    std::vector<double> after_seconds;
    double Price(const std::vector<double>& prices) const;  // of what it uses, in sequences
    double SequencesBy(double seconds) const {
      return static_cast<double>(clock.sequences()) * clock.MicroBatchesBy(seconds, after_seconds);
    }
  };
  std::vector<MasterColumn> MasterColumnsBy(double seconds, std::vector<int>& numbers) const;
  double RelaxedSeconds() const;
  bool MayBegin(const RouteShape& shape) const;
  // Its number, known or not; -1: there are not as many devices, or it begins with others than it may.
  int Add(RouteShape shape);
  // Adds shapes that are worth more than that at such prices of devices; how many are new.
  int Price(double seconds, const std::vector<double>& device_prices, double least_worth);
  bool stopped() const { return IsStopped(stop_); }
  void Spread(const ShapePricing& pricing, double most_pass_seconds, const std::vector<double>& device_prices,
              RouteShape& shape) const;
  std::vector<double> LeastPrices() const;
  void Seed();
  void SeedEachClass();
  // The shapes of so few routes that each takes an equal part of all devices.
  void AddAlike();
  bool LengthenSums(const std::vector<int>& columns, const std::vector<double>& amounts);
  int MostRoutes(int column) const;
  double AloneSeconds(int column) const;
  bool NestedWith(int column, int other) const;
  ClassedPlan Whole(double relaxed_seconds);
  ClassedPlan WholeBy(double seconds, const std::vector<double>& prices) const;
  ClassedPlan DistributeColumns(const std::vector<std::pair<int, int>>& columns) const;  // column and routes
  std::array<double, 3> LeastBlockSeconds(int device_class) const;
  double BoundSeconds() const;

  StageTable& table_;
  const SumModel& sums_;
  const std::vector<int> cuts_;
  const RouteCount routes_;
  double batch_ = 0;  // sequences
  const Resources resources_;
  const std::atomic<bool>* const stop_;
  std::vector<int> devices_;  // of each class
  std::vector<ShapePricing>& pricings_;
  std::vector<std::vector<double>> pass_times_;  // of each
  std::vector<Column> pool_;
  std::vector<char> left_out_;  // of the pool, for now; or empty
  std::vector<double> prices_;  // of resources
  double longest_sums_seconds_ = 0;
  double relaxed_seconds_ = std::numeric_limits<double>::infinity(), lower_bound_seconds_ = 0;
  int64_t priced_ = 0;
};

}  // namespace medley
