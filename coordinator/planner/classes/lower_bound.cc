#include "coordinator/planner/classes/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/price_shapes.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/sum_floor.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Boxes are cut no further.
constexpr double kNarrow = 1.003, kNearlyNarrow = 1.02;
// How much a range of micro-batches counts against one of periods: what runs ahead is a part of a period.
constexpr double kAheadCounts = 0.2;
constexpr int kMostPrices = 4;
// Of routes of so few stages all is known that neither is dearer nor takes longer than something else, which costs so many questions.
constexpr int kMostExactStages = 6, kExactQuestions = 4;
// So often the pricing is asked; what has been found by then is a bound, too.
constexpr int kMostQuestions = 30'000;
// Prices of the least time and of these parts of it are mixed.
constexpr double kSooner[] = {0.995, 0.99, 0.98, 0.97};
constexpr double kTimeTolerance = 1e-4;
constexpr int kMostRounds = 8, kMostVain = 3, kMostWorst = 200;
constexpr double kNear = 0.997, kWorthwhile = 1.003, kRounding = 1e-4;
// What is worth its price does the batch, and not later than what is worth more.
constexpr double kSameWorth = 1 + 1e-8;

// The argument. Let resources have prices by which all there are cost as many sequences as the batch has. If every route
// does by T fewer sequences than it costs, then all together do less than the batch by T: T is a lower bound. What
// a route of S stages does by T is bounded by 1F1B: the first micro-batch takes the way W, the passes and messages of
// all stages, until its backward ends on the first; and stage s with k - 1 stages behind it, each pass taking p and
// each forward f, has run at most k of its m forwards before its first backward. So
//     W + (m - 1) p - (k - 1) f <= T,    and    m p <= T.
// The first says that the route's period e, the longest p - (k - 1) f / (m - 1) of its stages, has W + (m - 1) e <= T.
//
// And no more than S micro-batches are under way: the forward of each on the first stage follows the backward of the S-th
// before it there, and its own way follows that; in between the first stage runs a pass for each. So with
// m - 1 = q S + r and q > 0
//     (q + 1) W + r p <= T,
// where p is the pass of the first stage. With more stages in the place of S it is so, too. For routes of few stages
// and micro-batches it says more than the other one, and its left side adds up over stages, too.
//
// Sums make it longer (PlanKind). Those of the first stage follow its last backward but for what that backward itself
// hides, so W has what they take longer. Where replicas share the optimizer's state parameters are gathered from the
// step's begin on, and the first forward of the first stage ends no sooner than all of its own have come: W has what that takes
// longer than the forward, too. Later stages may gather while the first micro-batch is on its way to them.
//
// Routes are put into boxes by period, e0 <= e <= e1, and by how many micro-batches they do by T, m0 <= m <= m1. In a
// box its price and W add up over stages, and which stages it may have is known: those whose period with m0 is at
// most e1. So the dynamic programme of
// price_shapes.h finds the T up to which no route of the box is worth its price, for T is not in its question. Boxes
// with the least such T are cut in two until they are narrow: best first, as in branch and bound. By Lagrange a cheap
// route with a long way and a dear one with a short way make up one that is neither; where they have unlike numbers of
// stages, boxes are cut between these, too.

// How many ways of micro-batches follow each other, and passes of the first stage.
struct Trips {
  int ways = 1, first_passes = 0;
};

// Of m micro-batches on at most so many stages.
Trips TripsOf(int micro_batches, int most_stages) {
  const int ways = (micro_batches - 1) / most_stages;
  return ways == 0 ? Trips{} : Trips{1 + ways, (micro_batches - 1) % most_stages};
}

// What plans of some kind have in common: how many routes they have, and whether those share the optimizer's state.
class PlanKind {
 public:
  PlanKind(const PlanningProblem& problem, const std::vector<DeviceClass>& classes, StageMemories& memories,
           HostLayers host_layers, int most_stages, RouteCount routes, bool shards_optimizer)
      : table_(problem, classes, memories,
               // No replica carries less of it: the tied embedding may have two holders a route.
               shards_optimizer ? 0.5 / routes.most : 1, host_layers),
        routes_(routes),
        shards_optimizer_(shards_optimizer),
        pricings_(PricingsOf(table_, most_stages)) {
    const SumFloor floor(problem, routes.least);
    if (!floor.knows() || pricings_.empty()) return;
    const double part = shards_optimizer ? 0.5 : 1;  // the other half gathers
    sum_seconds_ = pricings_.front().SumSeconds([&](const StageForm& stage) {
      return part * floor.Seconds(static_cast<double>(table_.Parameters(stage)),
                                  table_.kinds()[stage.kind].degree,
                                  stage.layers + 3);  // and what is outside of layers
    });
  }

  StageTable& table() { return table_; }
  const StageTable& table() const { return table_; }
  std::vector<ShapePricing>& pricings() { return pricings_; }
  int most_routes() const { return routes_.most; }
  const std::vector<double>& sum_seconds() const { return sum_seconds_; }
  bool shards_optimizer() const { return shards_optimizer_; }
  // What the argument calls W, so many of which follow each other, X and p, so many of which there are.
  double WayOf(const RouteShape& shape, Trips trips) const {
    const StageForm& first = shape.stages.front();
    const double sums = sum_seconds_.empty() ? 0 : SumsOf(first), gathers = shards_optimizer_ ? sums : 0;
    return trips.ways * WaySeconds(table_, shape) + trips.first_passes * table_.PassSeconds(first) +
           std::max(0.0, sums - table_.BackwardSeconds(first)) +
           std::max(0.0, gathers - table_.ForwardSeconds(first));
  }
  // What a route does by some time at most.
  double MostMicroBatches(const RouteShape& shape, double seconds) const {
    const double left = seconds - WayOf(shape, {});
    if (left < 0) return 0;
    double most = kNever;
    for (const StageForm& stage : shape.stages) {
      const double pass = table_.PassSeconds(stage),
                   ahead = (stage.from_end - 1) * table_.ForwardSeconds(stage);
      most = std::min({most, 1 + (left + ahead) / pass, seconds / pass});
    }
    most = std::floor(most * kSameWorth);
    const int stages = static_cast<int>(shape.stages.size());
    while (most > 1 && WayOf(shape, TripsOf(static_cast<int>(most), stages)) > seconds * kSameWorth) --most;
    return most;
  }

 private:
  double SumsOf(const StageForm& stage) const {
    return sum_seconds_[pricings_.front().SumsAt(stage.kind, stage.from_end, stage.layers, stage.first)];
  }

  StageTable table_;
  const RouteCount routes_;
  const bool shards_optimizer_;
  std::vector<ShapePricing> pricings_;
  std::vector<double> sum_seconds_;  // half of it where the optimizer's state is shared; empty: nothing
};

bool Stopped(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

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

class BoxSearch {
 public:
  // `prices`: of a device of each class, in sequences; likewise of a route.
  BoxSearch(PlanKind& kind, std::vector<int> devices, std::vector<double> prices, double route_price,
            double upper_seconds, const std::atomic<bool>* stop)
      : kind_(kind),
        pricings_(kind.pricings()),
        table_(kind.table()),
        devices_(std::move(devices)),
        prices_(std::move(prices)),
        no_prices_(prices_.size(), 0),
        route_price_(route_price),
        upper_seconds_(upper_seconds),
        stop_(stop) {}

  // `parts`: boxes that have all routes, those of a search at other prices; none: all routes are one. What is found once
  // `stop` is true is no bound.
  double Run(const std::vector<Box>& parts) {
    for (int i = 0; parts.empty() && i < static_cast<int>(pricings_.size()); ++i) AddAll(i);
    for (Box box : parts) {
      if (Stopped(stop_)) break;
      box.seconds = 0;
      Add(box);
    }
    while (!boxes_.empty() && questions_ < kMostQuestions && !Stopped(stop_)) {
      const Box box = boxes_.top();
      const double periods = box.most_period / box.least_period - 1,
                   counts = kAheadCounts * (static_cast<double>(box.most_m) / box.least_m - 1);
      const double width = std::max(periods, counts);
      const int split_stages = SplitStages(box);
      if (width < kNarrow - 1 && split_stages == 0) {
        if (box.exact || box.least_m != box.most_m || MostStages(box) > kMostExactStages) break;
        boxes_.pop();
        AddExactly(box);
        continue;
      }
      boxes_.pop();
      Box low = box, high = box;
      if (split_stages > 0 && width < kNearlyNarrow - 1) {
        low.most_stages = split_stages;
        high.least_stages = split_stages + 1;
      } else if (counts > periods) {
        low.most_m = std::clamp(static_cast<int>(std::sqrt(1.0 * box.least_m * box.most_m)), box.least_m,
                                box.most_m - 1);
        high.least_m = low.most_m + 1;
      } else {
        low.most_period = high.least_period = std::sqrt(box.least_period * box.most_period);
      }
      Add(low);
      Add(high);
    }
    return boxes_.empty() ? upper_seconds_ : boxes_.top().seconds;
  }

  // Those that it has come to.
  std::vector<Box> Parts() const {
    std::vector<Box> parts = done_;
    for (std::priority_queue<Box> left = boxes_; !left.empty(); left.pop()) parts.push_back(left.top());
    return parts;
  }

  // Routes that are worth more than their prices soon after that.
  std::vector<RouteShape> Worst() {
    std::vector<RouteShape> worst;
    for (int i = 0; i < kMostWorst && !boxes_.empty(); ++i, boxes_.pop()) {
      const Box& box = boxes_.top();
      for (const double second : {0.0, Sequences(box.pricing) / box.least_period}) {
        std::optional<ShapePricing::Answer> answer =
            pricings_[box.pricing].Best(About(box, {}, prices_, second, kNever));
        if (answer) worst.push_back(std::move(answer->shape));
      }
    }
    return worst;
  }

 private:
  struct Cheapest {
    double price = 0, way_seconds = 0;
    int stages = 0;
  };

  int MostStages(const Box& box) const {
    return std::min(box.most_stages, pricings_[box.pricing].most_stages());
  }

  // Of a narrow box: when the first of its routes that cost no more than they are worth does its micro-batches.
  void AddExactly(Box box) {
    box.exact = true;
    const double one = Sequences(box.pricing), most_price = one * box.least_m * kSameWorth - route_price_;
    std::vector<Trips> all = {{}};
    const Trips trips = TripsOf(box.least_m, MostStages(box));
    if (trips.ways > 1) all.push_back(trips);
    for (const Trips& of : all) {
      questions_ += kExactQuestions;
      const double behind = of.ways > 1 ? 0 : (box.least_m - 1) * box.least_period;
      const double least = pricings_[box.pricing].LeastSeconds(About(box, of, prices_, 0, kNever), most_price,
                                                               upper_seconds_ - behind);
      box.seconds = std::max(box.seconds, least + behind);
      if (box.seconds >= upper_seconds_) break;
    }
    if (box.seconds < upper_seconds_) {
      boxes_.push(box);
    } else {
      done_.push_back(box);
    }
  }

  // 0: nothing is gained by it. Of fewer stages less is under way.
  int SplitStages(const Box& box) const {
    if (box.split_stages > 0) return box.split_stages;
    const int most = MostStages(box);
    if (box.stages < most && box.stages < box.least_m && box.stages <= kMostExactStages) return box.stages;
    return 0;
  }

  int Sequences(int pricing) const { return table_.problem().micro_batch_sizes[pricings_[pricing].size()]; }

  // All routes with micro-batches of one size.
  void AddAll(int pricing) {
    const std::vector<double> times = pricings_[pricing].PassTimes(2);
    if (times.empty()) return;
    const int most = table_.problem().shape.global_batch_sequences / Sequences(pricing);
    // The last stage runs nothing ahead, so no period is shorter than its pass; nor, up to rounding, than a small part of
    // any pass, for m p <= T.
    double least = kNever;
    for (int kind = 0; kind < static_cast<int>(table_.kinds().size()); ++kind)
      least = std::min(least, pricings_[pricing].PassSeconds(kind, 1, 0, /*first=*/false));
    const auto positive = std::upper_bound(times.begin(), times.end(), 0.0);
    if (positive == times.end()) return;
    least = std::max(least, kRounding * *positive);
    Add({pricing, least, times.back(), 1, most});
  }

  void Add(Box box) {
    if (Bound(box)) {
      boxes_.push(box);
    } else {
      done_.push_back(box);
    }
  }

  // No route of the box does m micro-batches before W + (m - 1) e0, or before (q + 1) W + r p. Each by itself has a least
  // time, and the later of both holds.
  // False: there is nothing to be found in it.
  bool Bound(Box& box) {
    if ((box.least_m - 1) * box.least_period >= upper_seconds_) return false;
    box.split_stages = 0;
    box.exact = false;
    const Trips trips = TripsOf(box.least_m, MostStages(box));
    if (trips.ways > 1 && MostStages(box) <= kMostExactStages && !BoundBy(box, trips)) return false;
    if (!BoundBy(box, {})) return false;
    box.number = questions_;
    return true;
  }

  // None is worth its price with fewer than m in sequences. So, by Lagrange, with seconds of the way priced at u none is
  // worth it until
  //   (the least of price + u W, less what m are worth) / u + (m - 1) e0,
  // with m1 for m up to that u with which it no longer counts, and m0 beyond. Less u is better for routes that cost
  // more than m are worth, and worse for the others: the best u is where one of either kind are alike. Where several ways follow
  // each other these are W, and there is no e0.
  // False: there is nothing to be found in it.
  bool BoundBy(Box& box, Trips trips) {
    const double one = Sequences(box.pricing);
    const auto other_seconds = [&](int m) { return trips.ways > 1 ? 0 : (m - 1) * box.least_period; };
    Cheapest cheap, dear, found;
    int m = box.most_m;
    double price_of_second = one / box.least_period / trips.ways;
    // False: none is worth its price in time.
    const auto ask = [&] {
      const double most = (upper_seconds_ - other_seconds(m)) * price_of_second + one * m - route_price_;
      if (!Ask(box, trips, prices_, price_of_second, most, found)) return false;
      box.seconds = std::max(
          box.seconds, (found.price - one * m) / price_of_second + found.way_seconds + other_seconds(m));
      return box.seconds < upper_seconds_;
    };
    if (!ask()) return false;
    box.stages = found.stages;
    bool between = false;  // of prices that are to be tried
    if (found.price > one * m) {
      dear = found;
      if (!Ask(box, trips, prices_, 0, one * m * kSameWorth - route_price_, cheap)) return false;
      between = true;
    } else if (found.price < one * box.least_m) {
      m = box.least_m;
      cheap = found;
      if (!Ask(box, trips, no_prices_, 1, upper_seconds_ - other_seconds(m), dear)) return false;
      between = dear.price > one * m;
      if (!between) box.seconds = std::max(box.seconds, dear.way_seconds + other_seconds(m));
    }
    for (int i = 1; between && i < kMostPrices && cheap.way_seconds > dear.way_seconds; ++i) {
      const double next = (dear.price - cheap.price) / (cheap.way_seconds - dear.way_seconds);
      if (std::abs(next - price_of_second) < 1e-6 * price_of_second) break;
      price_of_second = next;
      if (!ask()) return false;
      (found.price <= one * m ? cheap : dear) = found;
    }
    if (box.seconds >= upper_seconds_) return false;
    if (between && cheap.stages != dear.stages) box.split_stages = std::min(cheap.stages, dear.stages);
    return true;
  }

  ShapePricing::Question About(const Box& box, Trips trips, const std::vector<double>& prices,
                               double price_of_second, double most_cost) const {
    return {.most_pass_seconds = upper_seconds_ / box.least_m,
            .most_period_seconds = box.most_period,
            .ahead_part = box.least_m > 1 ? 1.0 / (box.least_m - 1) : kNever,
            .most_cost = most_cost,
            .price_of_second = price_of_second,
            .ways = trips.ways,
            .first_passes = trips.first_passes,
            .price = prices,
            .most_devices = devices_,
            .least_stages = box.least_stages,
            .most_stages = box.most_stages,
            .sum_seconds = kind_.sum_seconds(),
            .gathers = kind_.shards_optimizer()};
  }

  // False: no route of the box costs less than that.
  bool Ask(const Box& box, Trips trips, const std::vector<double>& prices, double price_of_second,
           double most_cost, Cheapest& cheapest) {
    ++questions_;
    const std::optional<ShapePricing::Answer> answer =
        pricings_[box.pricing].Best(About(box, trips, prices, price_of_second, most_cost));
    if (!answer) return false;
    cheapest = {.price = route_price_,
                .way_seconds = kind_.WayOf(answer->shape, trips),
                .stages = static_cast<int>(answer->shape.stages.size())};
    for (const StageForm& stage : answer->shape.stages) {
      const StageKind& kind = table_.kinds()[stage.kind];
      cheapest.price += kind.degree * prices_[kind.device_class];
    }
    return true;
  }

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
  // which all there is costs the batch. No prices: nothing has one.
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
    if (!any) return {high, {}};
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
  for (int round = 0; round < kMostRounds && !Stopped(stop); ++round) {
    auto [seconds, at] = master.Solve(bound, upper_seconds);
    if (at.prices.empty()) break;
    if (!gained) {
      at = master.Between(std::move(at), best);
    } else if (round == 0 && !best.prices.empty()) {
      at = master.Between(best, best);
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
    if (!any) break;
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

}  // namespace

double LowerBoundSeconds(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         StageMemories& memories, const KnownPlans& known, bool layers_on_hosts,
                         int most_stages, int most_routes, const std::atomic<bool>* stop) {
  struct Kind {
    RouteCount routes;
    bool shards_optimizer = false;
  };
  std::vector<Kind> kinds;
  const bool may_shard = problem.constraints.saves_memory;
  const int few = MostOfFew(problem, most_routes);
  if (few < most_routes && SumFloor(problem, few + 1).knows()) {
    kinds.push_back({{1, few}, may_shard});
    kinds.push_back({{few + 1, most_routes}, false});
    if (may_shard) kinds.push_back({{few + 1, most_routes}, true});
  } else {
    kinds.push_back({{1, most_routes}, may_shard});
  }
  // That of the best plan first: the others then need not be bounded any higher.
  std::stable_sort(kinds.begin(), kinds.end(), [&](const Kind& a, const Kind& b) {
    const auto differs = [&](const Kind& kind) {
      const bool has = kind.routes.least <= known.routes && known.routes <= kind.routes.most;
      return (has ? 0 : 2) + (kind.shards_optimizer == known.shards_optimizer ? 0 : 1);
    };
    return differs(a) < differs(b);
  });
  const Resources resources(problem, classes);
  double bound = known.step_seconds;
  MasterRelaxation best;
  for (const Kind& one : kinds) {
    PlanKind kind(problem, classes, memories, layers_on_hosts ? HostLayers::kCopiesFree : HostLayers::kNone,
                  most_stages, one.routes, one.shards_optimizer);
    bound = std::min(bound, BoundOf(kind, resources, known.shapes, bound, best, stop));
  }
  return Stopped(stop) ? 0 : bound;
}

}  // namespace medley
