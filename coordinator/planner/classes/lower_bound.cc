#include "coordinator/planner/classes/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/classes/price_shapes.h"
#include "coordinator/planner/classes/resources.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Boxes are cut no further.
constexpr double kNarrow = 1.003;
// How much a range of micro-batches counts against one of periods: what runs ahead is a part of a period.
constexpr double kAheadCounts = 0.2;
constexpr int kMostPrices = 4;
// So often the pricing is asked; what has been found by then is a bound, too.
constexpr int kMostQuestions = 2000;
constexpr double kTimeTolerance = 1e-4;
constexpr int kMostRounds = 6, kMostWorst = 30;
constexpr double kNear = 0.99, kRounding = 1e-4;
// What is worth its price does the batch, and not later than what is worth more.
constexpr double kSameWorth = 1 + 1e-9;

// The argument. Let resources have prices by which all there are cost as many sequences as the batch has. If every route
// does by T fewer sequences than it costs, then all together do less than the batch by T: T is a lower bound. What
// a route of S stages does by T is bounded by 1F1B: the first micro-batch takes the way W, the passes and messages of
// all stages, until its backward ends on the first; and stage s with k - 1 stages behind it, each pass taking p and
// each forward f, has run at most k of its m forwards before its first backward. So
//     W + (m - 1) p - (k - 1) f <= T,    and    m p <= T.
// The first says that the route's period e, the longest p - (k - 1) f / (m - 1) of its stages, has W + (m - 1) e <= T.
// Routes are put into boxes by period, e0 <= e <= e1, and by how many micro-batches they do by T, m0 <= m <= m1. In a
// box a route does at most 1 + (T - W) / e0 micro-batches, and at most m1; its price and W add up over stages, and
// which stages it may have is known: those whose period with m0 is at most e1. So the dynamic programme of
// price_shapes.h finds the T up to which no route of the box is worth its price, for T is not in its question. Boxes
// with the least such T are cut in two until they are narrow: best first, as in branch and bound.
class BoxSearch {
 public:
  // `prices`: of a device of each class, in sequences; likewise of a route.
  BoxSearch(std::vector<ShapePricing>& pricings, std::vector<int> devices, std::vector<double> prices,
            double route_price, double upper_seconds)
      : pricings_(pricings),
        table_(pricings.front().table()),
        devices_(std::move(devices)),
        prices_(std::move(prices)),
        route_price_(route_price),
        upper_seconds_(upper_seconds) {}

  double Run() {
    for (int i = 0; i < static_cast<int>(pricings_.size()); ++i) AddAll(i);
    while (!boxes_.empty() && questions_ < kMostQuestions) {
      const Box box = boxes_.top();
      const double periods = box.most_period / box.least_period - 1,
                   counts = kAheadCounts * (static_cast<double>(box.most_m) / box.least_m - 1);
      if (std::max(periods, counts) < kNarrow - 1) break;
      boxes_.pop();
      Box low = box, high = box;
      if (counts > periods) {
        low.most_m = (box.least_m + box.most_m) / 2;
        high.least_m = low.most_m + 1;
      } else {
        low.most_period = high.least_period = std::sqrt(box.least_period * box.most_period);
      }
      Add(low);
      Add(high);
    }
    return boxes_.empty() ? upper_seconds_ : boxes_.top().seconds;
  }

  // Routes that are worth more than their prices soon after that.
  std::vector<RouteShape> Worst() {
    std::vector<RouteShape> worst;
    for (int i = 0; i < kMostWorst && !boxes_.empty(); ++i, boxes_.pop()) {
      const Box& box = boxes_.top();
      worst.push_back(
          pricings_[box.pricing].Best(About(box, Sequences(box.pricing) / box.least_period))->shape);
    }
    return worst;
  }

 private:
  struct Box {
    int pricing = 0;
    double least_period = 0, most_period = 0;
    int least_m = 0, most_m = 0;
    double seconds = 0;  // no route is worth its price before
    int number = 0;
    bool operator<(const Box& other) const {  // the least time on top
      return seconds != other.seconds ? seconds > other.seconds : number > other.number;
    }
  };
  struct Cheapest {
    double price = 0, way_seconds = 0;
  };

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
    for (double period = least; period <= times.back(); period *= 1.5) {
      for (int m = 1; m <= most; m *= 2) Add({pricing, period, 1.5 * period, m, std::min(most, 2 * m - 1)});
    }
  }

  // With seconds of the way priced at u, no route of the box is worth its price until
  //   (the least of price + u W, less what m1 are worth) / u + (m1 - 1) e0,
  // for any u up to that with which m1 no longer counts. Less u is better for routes that cost more than m1 are worth,
  // and worse for the others: the best u is where one of either kind are alike.
  void Add(Box box) {
    if ((box.least_m - 1) * box.least_period >= upper_seconds_) return;
    const double most_worth = static_cast<double>(Sequences(box.pricing)) * box.most_m;
    std::optional<Cheapest> cheap = Ask(box, 0);
    if (!cheap || cheap->price > most_worth * kSameWorth) return;
    double price_of_second = Sequences(box.pricing) / box.least_period;
    Cheapest dear;
    for (int i = 0; i < kMostPrices; ++i) {
      const Cheapest found = *Ask(box, price_of_second);
      box.seconds = std::max(box.seconds, (found.price - most_worth) / price_of_second + found.way_seconds +
                                              (box.most_m - 1) * box.least_period);
      if (box.seconds >= upper_seconds_) return;
      if (found.price <= most_worth && i == 0) break;
      (found.price <= most_worth ? *cheap : dear) = found;
      if (cheap->way_seconds <= dear.way_seconds) break;
      const double next = (dear.price - cheap->price) / (cheap->way_seconds - dear.way_seconds);
      if (std::abs(next - price_of_second) < 1e-6 * price_of_second) break;
      price_of_second = next;
    }
    box.number = questions_;
    boxes_.push(box);
  }

  ShapePricing::Question About(const Box& box, double price_of_second) const {
    return {.most_pass_seconds = upper_seconds_ / box.least_m,
            .most_period_seconds = box.most_period,
            .ahead_part = box.least_m > 1 ? 1.0 / (box.least_m - 1) : kNever,
            .price_of_second = price_of_second,
            .price = prices_,
            .most_devices = devices_};
  }

  std::optional<Cheapest> Ask(const Box& box, double price_of_second) {
    ++questions_;
    const std::optional<ShapePricing::Answer> answer =
        pricings_[box.pricing].Best(About(box, price_of_second));
    if (!answer) return std::nullopt;
    Cheapest cheapest{.price = route_price_, .way_seconds = WaySeconds(table_, answer->shape)};
    for (const StageForm& stage : answer->shape.stages) {
      const StageKind& kind = table_.kinds()[stage.kind];
      cheapest.price += kind.degree * prices_[kind.device_class];
    }
    return cheapest;
  }

  std::vector<ShapePricing>& pricings_;
  const StageTable& table_;
  const std::vector<int> devices_;
  const std::vector<double> prices_;
  const double route_price_;
  const double upper_seconds_;
  std::priority_queue<Box> boxes_;
  int questions_ = 0;
};

// What a route does by some time at most, as the argument has it.
double MostMicroBatches(const StageTable& table, const RouteShape& shape, double seconds) {
  const double left = seconds - WaySeconds(table, shape);
  if (left < 0) return 0;
  double most = kNever;
  for (const StageForm& stage : shape.stages) {
    const double pass = table.PassSeconds(stage), ahead = (stage.from_end - 1) * table.ForwardSeconds(stage);
    most = std::min({most, 1 + (left + ahead) / pass, seconds / pass});
  }
  return most;
}

// The master over routes that do as much as the argument allows.
class OptimisticMaster {
 public:
  OptimisticMaster(StageTable& table, const Resources& resources, int most_routes)
      : table_(table), resources_(resources), most_routes_(most_routes) {}

  void Add(RouteShape shape) {
    if (!FitWithLeast(table_, shape)) return;
    const bool known = std::any_of(routes_.begin(), routes_.end(),
                                   [&](const RouteShape& route) { return SameShape(route, shape); });
    if (!known) routes_.push_back(std::move(shape));
  }

  // The least time by which fractions of the routes do the batch, at most `high`, and prices of that time by which all
  // there is costs the batch. No prices: nothing has one.
  std::pair<double, MasterRelaxation> Solve(double low, double high) const {
    const double batch = table_.problem().shape.global_batch_sequences;
    MasterRelaxation at = SolveBy(high);
    while (at.value >= batch && high - low > kTimeTolerance * high) {
      const double middle = (low + high) / 2;
      MasterRelaxation then = SolveBy(middle);
      (then.value >= batch ? high : low) = middle;
      if (then.value >= batch) at = std::move(then);
    }
    const std::vector<double>& limits = resources_.limits();
    const double all = std::inner_product(at.prices.begin(), at.prices.end(), limits.begin(), 0.0) +
                       most_routes_ * at.route_price;
    if (!(all > 0)) return {high, {}};
    for (double& price : at.prices) price *= batch / all;
    at.route_price *= batch / all;
    return {high, std::move(at)};
  }

 private:
  MasterRelaxation SolveBy(double seconds) const {
    std::vector<MasterColumn> columns;
    for (const RouteShape& route : routes_) {
      const double micro_batches = MostMicroBatches(table_, route, seconds);
      if (micro_batches <= 0) continue;
      columns.push_back({resources_.Uses(DevicesOf(table_, route)),
                         micro_batches * table_.problem().micro_batch_sizes[route.size]});
    }
    return columns.empty() ? MasterRelaxation{}
                           : SolveRelaxed(columns, resources_.limits(), {0, most_routes_});
  }

  StageTable& table_;
  const Resources& resources_;
  const int most_routes_;
  std::vector<RouteShape> routes_;
};

}  // namespace

double LowerBoundSeconds(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         StageMemories& memories, const std::vector<RouteShape>& shapes, double upper_seconds,
                         int most_stages, int most_routes) {
  // No replica carries less of the optimizer's state.
  StageTable table(problem, classes, memories, problem.constraints.saves_memory ? 1.0 / most_routes : 1);
  std::vector<ShapePricing> pricings = PricingsOf(table, most_stages);
  std::vector<int> devices;
  for (const DeviceClass& of : classes) devices.push_back(of.devices);
  const Resources resources(problem, classes);
  OptimisticMaster master(table, resources, most_routes);
  for (const RouteShape& shape : shapes) master.Add(shape);
  double bound = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto [seconds, at] = master.Solve(bound, upper_seconds);
    if (at.prices.empty()) break;
    BoxSearch search(pricings, devices, resources.DevicePrices(at.prices), at.route_price, seconds);
    bound = std::max(bound, search.Run() * (1 - kRounding));
    if (bound >= kNear * seconds) break;
    for (RouteShape& shape : search.Worst()) master.Add(std::move(shape));
  }
  return bound;
}

}  // namespace medley
