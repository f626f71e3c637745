#include "coordinator/planner/classes/lower_bound.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/route_boxes.h"
#include "coordinator/planner/classes/sum_floor.h"
#include "coordinator/predictor/group_sums.h"
#include "coordinator/predictor/library_sums.h"
#include "runtime/base/stop_flag.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Prices of the least time and of these parts of it are mixed.
constexpr double kSooner[] = {0.995, 0.99, 0.98, 0.97};
constexpr double kTimeTolerance = 1e-4;
constexpr int kMostRounds = 10, kMostVain = 4;
constexpr double kNear = 0.997, kWorthwhile = 1.003, kRounding = 1e-4;

// The master over routes that do as much as the argument allows.
class OptimisticMaster {
 public:
  OptimisticMaster(PlanKind& kind, const Resources& resources) : kind_(kind), resources_(resources) {}

  // Whether it is new.
  bool Add(RouteShape shape) {
    if (!FitWithLeast(kind_.table(), shape)) return false;
    const bool known = std::any_of(routes_.begin(), routes_.end(),
                                   [&](const RouteShape& route) { return SameShape(route, shape); });
    if (!known) routes_.push_back(std::move(shape));
    return !known;
  }

  // The least time by which fractions of the routes do the batch, at most `high`, and prices of just before that, by
  // which all there is costs the batch. Where none of the routes that are known does anything by `high` all have the same.
  std::pair<double, MasterRelaxation> Solve(double low, double high) const {
    const double batch = kind_.table().problem().shape.global_batch_sequences, enough = batch / kSameWorth;
    MasterRelaxation before = SolveBy(high);
    if (before.value >= enough) {
      before = SolveBy(low);
      while (high - low > kTimeTolerance * high) {
        const double middle = (low + high) / 2;
        MasterRelaxation then = SolveBy(middle);
        (then.value >= enough ? high : low) = middle;
        if (then.value < enough) before = std::move(then);
      }
    }
    // Where few routes are known many prices are as good for the master, and those in between the best for all routes.
    MasterRelaxation at;
    at.prices.assign(resources_.limits().size(), 0);
    bool any = AddPrices(before, at);
    if (low == 0) {
      for (const double sooner : kSooner) any = AddPrices(SolveBy(sooner * high), at) || any;
    }
    if (!any) std::fill(at.prices.begin(), at.prices.end(), 1.0);
    CostTheBatch(at);
    return {high, std::move(at)};
  }

  // Prices half way between, by which all there is costs the batch.
  MasterRelaxation Between(MasterRelaxation a, const MasterRelaxation& b) const {
    AddPrices(b, a);
    CostTheBatch(a);
    return a;
  }

 private:
  // What all there is costs.
  double CostOf(const MasterRelaxation& at) const {
    const std::vector<double>& limits = resources_.limits();
    return std::inner_product(at.prices.begin(), at.prices.end(), limits.begin(), 0.0) +
           kind_.most_routes() * at.route_price;
  }
  void CostTheBatch(MasterRelaxation& at) const {
    const double factor = kind_.table().problem().shape.global_batch_sequences / CostOf(at);
    for (double& price : at.prices) price *= factor;
    at.route_price *= factor;
  }
  // False: nothing has one.
  bool AddPrices(MasterRelaxation more, MasterRelaxation& to) const {
    if (more.prices.empty() || !(CostOf(more) > 0)) return false;
    CostTheBatch(more);
    for (size_t r = 0; r < to.prices.size(); ++r) to.prices[r] += more.prices[r];
    to.route_price += more.route_price;
    return true;
  }
  MasterRelaxation SolveBy(double seconds) const {
    std::vector<MasterColumn> columns;
    for (const RouteShape& route : routes_) {
      const double micro_batches = kind_.MostMicroBatches(route, seconds);
      if (micro_batches <= 0) continue;
      columns.push_back({resources_.Uses(DevicesOf(kind_.table(), route)),
                         micro_batches * kind_.table().problem().micro_batch_sizes[route.size]});
    }
    return columns.empty() ? MasterRelaxation{}
                           : SolveRelaxed(columns, resources_.limits(), {0, kind_.most_routes()});
  }

  PlanKind& kind_;
  const Resources& resources_;
  std::vector<RouteShape> routes_;
};

// Of plans of one kind, at most `upper_seconds`. `best`: prices by which the bound of another kind was the highest, or none; then
// those of this one.
double BoundOf(PlanKind& kind, const Resources& resources, const std::vector<RouteShape>& shapes,
               double upper_seconds, MasterRelaxation& best, const std::atomic<bool>* stop) {
  std::vector<int> devices;
  for (const DeviceClass& of : kind.table().classes()) devices.push_back(of.devices);
  OptimisticMaster master(kind, resources);
  for (const RouteShape& shape : shapes) master.Add(shape);
  std::vector<Box> parts;
  double bound = 0;
  bool gained = true;
  int in_vain = 0;
  for (int round = 0; round < kMostRounds && !IsStopped(stop); ++round) {
    auto [seconds, at] = master.Solve(bound, upper_seconds);
    // Prices half way to the best ones are steadier, but none of these knows what the best ones lack: by turns.
    bool are_own = true;
    if (!gained && in_vain % 2 == 0) {
      at = master.Between(std::move(at), best);
      are_own = false;
    } else if (round == 0 && !best.prices.empty()) {
      at = master.Between(best, best);
      are_own = false;
    }
    BoxSearch search(kind, devices, resources.DevicePrices(at.prices), at.route_price, seconds, stop);
    const double found = search.Run(parts) * (1 - kRounding);
    gained = found >= kWorthwhile * bound;
    in_vain = gained ? 0 : in_vain + 1;
    if (found > bound) best = at;
    bound = std::max(bound, found);
    if (bound >= kNear * seconds || in_vain == kMostVain) break;
    parts = search.Parts();
    bool any = false;
    for (RouteShape& shape : search.Worst()) any = master.Add(std::move(shape)) || any;
    if (!any && are_own) break;  // they would be the same
  }
  return bound;
}

// Sums of many replicas take longer, so plans of few are bounded by themselves: this many at most.
int MostOfFew(const PlanningProblem& problem, int most_routes) {
  std::map<int, int> devices_on;
  int most_on_host = 1;
  for (const DeviceCost& device : problem.devices)
    most_on_host = std::max(most_on_host, device.host < 0 ? 1 : ++devices_on[device.host]);
  const int of_few_hosts = 4 * most_on_host;
  return of_few_hosts < most_routes ? of_few_hosts : most_on_host;
}

// Of all devices of the problem: the class whose hosts keep others waiting the longest for what they sum, if that is longer than any
// must; -1: none, or predictions do not look at all of such sums, message by message.
int ClassSlowToSum(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                   const RouteCount& routes) {
  std::set<int> hosts;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) hosts.insert(HostOf(problem, d));
  const bool are_looked_at = static_cast<int>(problem.devices.size()) <= kMostSummedWhole &&
                             static_cast<int>(hosts.size()) < routes.least && !AnySumIsMeasured(problem);
  if (!are_looked_at || classes.size() < 2) return -1;
  const auto elements = static_cast<double>(ModelElements(problem.shape.model));
  const int segments = problem.shape.model.blocks() + 1;
  double longest_seconds = SumFloor(problem, routes.least).Seconds(elements, 1, segments);
  int slowest = -1;
  for (int c = 0; c < static_cast<int>(classes.size()); ++c) {
    const double seconds =
        SumFloor::OfHosts(problem, classes[c], routes.least).Seconds(elements, 1, segments);
    if (seconds <= longest_seconds) continue;
    longest_seconds = seconds;
    slowest = c;
  }
  return slowest;
}

// Plans of so many routes that share the optimizer's state: those in which devices that are slow to sum hold more than half of the layers on some
// unit, for which all others then wait, and those in which they hold less, in longer pipelines.
std::vector<PlanTraits> PlansThatShare(const PlanningProblem& problem,
                                       const std::vector<DeviceClass>& classes, const RouteCount& routes) {
  PlanTraits all{.routes = routes, .shards_optimizer = true};
  all.slow_class = ClassSlowToSum(problem, classes, routes);
  if (all.slow_class < 0) return {all};
  PlanTraits less = all, more = all;
  less.most_layers = problem.shape.model.layers / 2;
  more.least_layers = less.most_layers + 1;
  return {less, more};
}

}  // namespace

double LowerBoundSeconds(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         StageMemories& memories, const KnownPlans& known, bool layers_on_hosts,
                         int most_stages, int most_routes, const std::atomic<bool>* stop) {
  std::vector<PlanTraits> kinds;
  const bool may_shard = problem.constraints.saves_memory;
  const int few = MostOfFew(problem, most_routes);
  if (few < most_routes && SumFloor(problem, few + 1).knows()) {
    kinds.push_back({{1, few}, may_shard});
    kinds.push_back({{few + 1, most_routes}, false});
    if (may_shard) {
      for (const PlanTraits& shared : PlansThatShare(problem, classes, {few + 1, most_routes}))
        kinds.push_back(shared);
    }
  } else {
    kinds.push_back({{1, most_routes}, may_shard});
  }
  // That of the best plan first: the others then need not be bounded any higher.
  std::stable_sort(kinds.begin(), kinds.end(), [&](const PlanTraits& a, const PlanTraits& b) {
    const auto differs = [&](const PlanTraits& kind) {
      const bool has = kind.routes.least <= known.routes && known.routes <= kind.routes.most;
      return (has ? 0 : 2) + (kind.shards_optimizer == known.shards_optimizer ? 0 : 1);
    };
    return differs(a) < differs(b);
  });
  const Resources resources(problem, classes);
  double bound = known.step_seconds;
  MasterRelaxation best;
  for (const PlanTraits& traits : kinds) {
    PlanKind kind(problem, classes, memories, layers_on_hosts, most_stages, traits);
    bound = std::min(bound, BoundOf(kind, resources, known.shapes, bound, best, stop));
  }
  return IsStopped(stop) ? 0 : bound;
}

}  // namespace medley
