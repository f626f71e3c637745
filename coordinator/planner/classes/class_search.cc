#include "coordinator/planner/classes/class_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "coordinator/planner/classes/routes_within.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostRounds = 24;
// Stage times that are priced lie so far apart, and further where a price takes long to find.
constexpr double kPassRatio = 1.06, kWidePassRatio = 1.15;
constexpr double kMuchWork = 2e5;  // layers, squared, of kinds and stages
// A time found by halving is this near.
constexpr double kTimeTolerance = 1e-4;
// Rounds end when they gain less.
constexpr double kWorthwhile = 2e-3;
constexpr double kSomeRoutes = 0.5;
constexpr int kMostNodes = 400;
constexpr double kNearlyWorth = 1.15;
constexpr double kWholeTolerance = 4e-3;
constexpr size_t kNestedPlans = 2;
constexpr size_t kMostWholeColumns = 160;
// How many times as dear devices are that a route is to have only if it must.
constexpr double kDear = 100;
// Of so few routes each takes much of what there is of a class.
constexpr int kFewRoutes = 8;

}  // namespace

ClassSearch::ClassSearch(StageTable& table, std::vector<ShapePricing>& pricings, const SumModel& sums,
                         std::vector<int> cuts, RouteCount routes, const std::atomic<bool>* stop)
    : table_(table),
      sums_(sums),
      cuts_(std::move(cuts)),
      routes_(routes),
      batch_(table.problem().shape.global_batch_sequences),
      resources_(table.problem(), table.classes()),
      stop_(stop),
      pricings_(pricings) {
  for (const DeviceClass& of : table.classes()) devices_.push_back(of.devices);
  for (const ShapePricing& pricing : pricings_) {
    const double cuts = cuts_.empty() ? pricing.layers() : static_cast<double>(cuts_.size());
    const double work = 0.5 * cuts * cuts * pricing.most_stages() * static_cast<double>(table.kinds().size());
    pass_times_.push_back(pricing.PassTimes(work > kMuchWork ? kWidePassRatio : kPassRatio));
  }
  lower_bound_seconds_ = BoundSeconds();
}

int ClassSearch::Add(RouteShape shape) {
  for (size_t i = 0; i < pool_.size(); ++i) {
    if (SameShape(pool_[i].clock.shape(), shape)) return static_cast<int>(i);
  }
  if (!MayBegin(shape)) return -1;
  std::vector<double> uses = resources_.Uses(DevicesOf(table_, shape));
  if (!resources_.Has(uses)) return -1;
  std::vector<double> after = sums_.AfterSeconds(table_, shape, longest_sums_seconds_);
  std::vector<double> first_forwards = sums_.FirstForwardSeconds(table_, shape);
  pool_.push_back(
      {RouteClock(table_, std::move(shape), std::move(first_forwards)), std::move(uses), std::move(after)});
  return static_cast<int>(pool_.size()) - 1;
}

// Whether each class holds no layers but those that the sums take it to hold.
bool ClassSearch::MayBegin(const RouteShape& shape) const {
  if (sums_.least_begin().empty()) return true;
  int begin = 0;
  for (const StageForm& stage : shape.stages) {
    if (begin < sums_.least_begin()[table_.kinds()[stage.kind].device_class]) return false;
    begin += stage.layers;
  }
  return true;
}

// Device seconds that a sequence takes at least, of a class: the embedding, one layer, and the head.
std::array<double, 3> ClassSearch::LeastBlockSeconds(int device_class) const {
  std::array<double, 3> least = {kNever, kNever, kNever};
  for (const StageKind& kind : table_.kinds()) {
    if (kind.device_class != device_class) continue;
    for (size_t size = 0; size < kind.cost.times.size(); ++size) {
      const BlockTimes& times = kind.cost.times[size];
      const double of_sequence = static_cast<double>(kind.degree) / table_.problem().micro_batch_sizes[size];
      least[0] = std::min(least[0], of_sequence * times.embedding.Seconds());
      least[1] = std::min(least[1], of_sequence * times.layer.Seconds());
      least[2] = std::min(least[2], of_sequence * times.head.Seconds());
    }
  }
  return least;
}

// Blocks of a sequence may be weighed in any way, so that all of them together weigh 1: no class does more weight a
// second than with the block for which it does most. Weighed by the times of any class that is a bound.
double ClassSearch::BoundSeconds() const {
  const double layers = table_.problem().shape.model.layers;
  std::vector<std::array<double, 3>> seconds;
  for (size_t c = 0; c < devices_.size(); ++c) seconds.push_back(LeastBlockSeconds(static_cast<int>(c)));
  double bound = 0;
  for (const std::array<double, 3>& weights : seconds) {
    const double sum = weights[0] + layers * weights[1] + weights[2];
    if (!(sum > 0) || sum == kNever) continue;
    double rate = 0;  // weight a second
    for (size_t c = 0; c < devices_.size(); ++c) {
      double most = 0;
      for (int block = 0; block < 3; ++block) {
        if (weights[block] == 0 || seconds[c][block] == kNever) continue;
        most = std::max(most, seconds[c][block] > 0 ? weights[block] / sum / seconds[c][block] : kNever);
      }
      rate += devices_[c] * most;
    }
    bound = std::max(bound, batch_ / rate);
  }
  return bound;
}

std::vector<MasterColumn> ClassSearch::MasterColumnsBy(double seconds, std::vector<int>& numbers) const {
  std::vector<MasterColumn> columns;
  for (size_t i = 0; i < pool_.size(); ++i) {
    const double sequences = pool_[i].SequencesBy(seconds);
    if (sequences <= 0 || (!left_out_.empty() && left_out_[i] != 0)) continue;
    numbers.push_back(static_cast<int>(i));
    columns.push_back({pool_[i].uses, sequences});
  }
  return columns;
}

// The least time by which fractions of routes of the shapes known do the batch.
double ClassSearch::RelaxedSeconds() const {
  return LeastSeconds(lower_bound_seconds_, kTimeTolerance, [&](double seconds) {
    std::vector<int> numbers;
    const std::vector<MasterColumn> columns = MasterColumnsBy(seconds, numbers);
    return !columns.empty() && SolveRelaxed(columns, resources_.limits(), routes_).value >= batch_;
  });
}

int ClassSearch::Price(double seconds, const std::vector<double>& device_prices, double least_worth) {
  const size_t known = pool_.size();
  for (size_t i = 0; i < pricings_.size(); ++i) {
    for (const double limit : pass_times_[i]) {
      if (stopped()) break;
      ++priced_;
      const double sequences_a_second = table_.problem().micro_batch_sizes[pricings_[i].size()] / limit;
      std::optional<ShapePricing::Answer> answer =
          pricings_[i].Best({.most_pass_seconds = limit,
                             .most_cost = sequences_a_second * (seconds + limit) - least_worth,
                             .price_of_second = sequences_a_second,
                             .price = device_prices,
                             .most_devices = devices_,
                             .cuts = cuts_,
                             .least_begin = sums_.least_begin()});
      if (!answer) continue;
      Spread(pricings_[i], limit, device_prices, answer->shape);
      Add(std::move(answer->shape));
    }
  }
  return static_cast<int>(pool_.size() - known);
}

// Prices know nothing of how many devices there are. What a route has too many of other classes do that are as fast, the
// cheapest first.
void ClassSearch::Spread(const ShapePricing& pricing, double most_pass_seconds,
                         const std::vector<double>& device_prices, RouteShape& shape) const {
  const std::vector<StageKind>& kinds = table_.kinds();
  std::vector<int> left = devices_;
  for (const StageForm& stage : shape.stages)
    left[kinds[stage.kind].device_class] -= kinds[stage.kind].degree;
  for (StageForm& stage : shape.stages) {
    const StageKind& own = kinds[stage.kind];
    if (left[own.device_class] >= 0) continue;
    int best = -1;
    double least = kNever;
    for (int k = 0; k < static_cast<int>(kinds.size()); ++k) {
      const double price = kinds[k].degree * device_prices[kinds[k].device_class];
      if (left[kinds[k].device_class] < kinds[k].degree || price >= least ||
          pricing.PassSeconds(k, stage.from_end, stage.layers, stage.first) > most_pass_seconds)
        continue;
      best = k;
      least = price;
    }
    if (best < 0) continue;
    left[own.device_class] += own.degree;
    left[kinds[best].device_class] -= kinds[best].degree;
    stage = pricing.Form(best, stage.from_end, stage.layers, stage.first);
  }
}

// What each device would do of a batch by the least time there is.
std::vector<double> ClassSearch::LeastPrices() const {
  std::vector<double> prices;
  for (size_t c = 0; c < devices_.size(); ++c) {
    const std::array<double, 3> least = LeastBlockSeconds(static_cast<int>(c));
    const double of_sequence = least[0] + table_.problem().shape.model.layers * least[1] + least[2];
    prices.push_back(of_sequence < kNever ? lower_bound_seconds_ / of_sequence : 0);
  }
  return prices;
}

void ClassSearch::Seed() {
  // Parts of what devices would do, too: then shapes that do less are worth something.
  for (const double part : {1.0, 0.7, 0.4}) {
    std::vector<double> prices = LeastPrices();
    for (double& price : prices) price *= part;
    Price(lower_bound_seconds_, prices, -kNever);
  }
}

// Of many classes the seeds may all want the same few, too few for so many routes: for each class, routes that have
// others only where they must.
void ClassSearch::SeedEachClass() {
  for (size_t c = 0; c < devices_.size() && !stopped(); ++c) {
    std::vector<double> prices = LeastPrices();
    for (size_t other = 0; other < prices.size(); ++other) {
      if (other != c) prices[other] *= kDear;
    }
    Price(lower_bound_seconds_, prices, -kNever);
  }
}

double ClassSearch::Column::Price(const std::vector<double>& prices) const {
  return std::inner_product(uses.begin(), uses.end(), prices.begin(), 0.0);
}

std::vector<RouteShape> ClassSearch::Shapes() const {
  std::vector<RouteShape> shapes;
  if (relaxed_seconds_ == kNever) return shapes;
  for (const Column& column : pool_) {
    if (column.Price(prices_) <= kNearlyWorth * column.SequencesBy(relaxed_seconds_))
      shapes.push_back(column.clock.shape());
  }
  return shapes;
}

// Where memory is another, its stages may have to recompute more or less.
void ClassSearch::Suggest(RouteShape shape) {
  if (FitWithLeast(table_, shape)) Add(std::move(shape));
}

void ClassSearch::AddAlike() {
  for (int routes = std::max(1, routes_.least); routes <= std::min(routes_.most, kFewRoutes); ++routes) {
    std::vector<int> devices;
    for (const int all : devices_) devices.push_back(all / routes);
    for (const ShapePricing& pricing : pricings_) {
      if (stopped()) return;
      for (RouteShape& shape : RoutesWithin(pricing, devices)) Add(std::move(shape));
    }
  }
}

void ClassSearch::Relax() {
  if (pool_.empty()) Seed();
  if (cuts_.empty() && sums_.least_begin().empty()) AddAlike();
  double seconds = RelaxedSeconds();
  if (seconds == kNever && devices_.size() > 1) {
    SeedEachClass();
    seconds = RelaxedSeconds();
  }
  if (seconds == kNever) return;
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<int> numbers;
    const std::vector<MasterColumn> columns = MasterColumnsBy(seconds, numbers);
    const MasterRelaxation at = SolveRelaxed(columns, resources_.limits(), routes_);
    prices_ = at.prices;
    if (LengthenSums(numbers, at.amounts)) {
      seconds = RelaxedSeconds();
      if (seconds == kNever) return;
      continue;
    }
    if (Price(seconds, resources_.DevicePrices(at.prices), at.route_price) == 0) break;
    const double sooner = RelaxedSeconds();
    const bool gained = sooner < (1 - kWorthwhile) * seconds;
    seconds = std::min(seconds, sooner);
    if (!gained) break;
  }
  relaxed_seconds_ = seconds;
}

// What all routes wait for is as long as the longest of those that are worth something.
bool ClassSearch::LengthenSums(const std::vector<int>& columns, const std::vector<double>& amounts) {
  double longest_seconds = longest_sums_seconds_;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (amounts[i] < kSomeRoutes) continue;
    longest_seconds =
        std::max(longest_seconds, sums_.LongestStreamSeconds(table_, pool_[columns[i]].clock.shape()));
  }
  if (longest_seconds <= longest_sums_seconds_ * (1 + kWorthwhile)) return false;
  longest_sums_seconds_ = longest_seconds;
  for (Column& column : pool_)
    column.after_seconds = sums_.AfterSeconds(table_, column.clock.shape(), longest_sums_seconds_);
  return true;
}

std::vector<ClassedPlan> ClassSearch::Run() {
  std::vector<ClassedPlan> plans;
  plans.push_back(Whole(relaxed_seconds_));
  std::vector<std::pair<double, int>> alone;
  for (int i = 0; i < static_cast<int>(pool_.size()); ++i) {
    if (MostRoutes(i) >= routes_.least) alone.push_back({AloneSeconds(i), i});
  }
  std::sort(alone.begin(), alone.end());
  for (size_t i = 0; i < std::min<size_t>(kNestedPlans, alone.size()) && !stopped(); ++i) {
    plans.push_back(DistributeColumns({{alone[i].second, MostRoutes(alone[i].second)}}));
    left_out_.assign(pool_.size(), 0);
    for (size_t other = 0; other < pool_.size(); ++other)
      left_out_[other] = NestedWith(alone[i].second, static_cast<int>(other)) ? 0 : 1;
    const double relaxed = RelaxedSeconds();
    if (relaxed < kNever) plans.push_back(Whole(relaxed));
  }
  left_out_.clear();
  std::erase_if(plans, [](const ClassedPlan& plan) { return plan.empty(); });
  return plans;
}

// Each has a micro-batch at least.
int ClassSearch::MostRoutes(int column) const {
  const Column& of = pool_[column];
  return std::min(resources_.Times(of.uses, routes_.most), static_cast<int>(batch_) / of.clock.sequences());
}

// Of as many routes of one shape as there can be.
double ClassSearch::AloneSeconds(int column) const {
  const Column& of = pool_[column];
  const int micro_batches =
      static_cast<int>(std::ceil(batch_ / of.clock.sequences() / static_cast<double>(MostRoutes(column))));
  return of.clock.Seconds(micro_batches, of.after_seconds);
}

// Whether no stage of one overlaps a stage of the other by halves.
bool ClassSearch::NestedWith(int column, int other) const {
  const std::vector<StageForm>&a = pool_[column].clock.shape().stages, &b = pool_[other].clock.shape().stages;
  size_t i = 0, j = 0;
  int end_a = a[0].layers, end_b = b[0].layers, begin_a = 0, begin_b = 0;
  for (;;) {
    if (begin_a < begin_b ? begin_b < end_a && end_a < end_b
                          : begin_a > begin_b && begin_a < end_b && end_b < end_a)
      return false;
    const bool next_a = end_a <= end_b, next_b = end_b <= end_a;
    if (next_a) {
      if (++i == a.size()) return true;
      begin_a = end_a, end_a += a[i].layers;
    }
    if (next_b) {
      if (++j == b.size()) return true;
      begin_b = end_b, end_b += b[j].layers;
    }
  }
}

// The least time by which whole routes do it.
ClassedPlan ClassSearch::Whole(double relaxed_seconds) {
  std::vector<int> numbers;
  const std::vector<double> prices =
      SolveRelaxed(MasterColumnsBy(relaxed_seconds, numbers), resources_.limits(), routes_).prices;
  ClassedPlan best;
  double low = relaxed_seconds, high = relaxed_seconds;
  for (int i = 0; i < 40 && !stopped(); ++i) {
    best = WholeBy(high, prices);
    if (!best.empty()) break;
    low = high;
    high *= i < 4 ? 1.01 : i < 12 ? 1.03 : 1.15;
  }
  while (!best.empty() && !stopped() && high - low > kWholeTolerance * high) {
    const double middle = (low + high) / 2;
    ClassedPlan plan = WholeBy(middle, prices);
    (plan.empty() ? low : high) = middle;
    if (!plan.empty() && plan.estimated_seconds < best.estimated_seconds) best = std::move(plan);
  }
  return best;
}

ClassedPlan ClassSearch::Distribute(const std::vector<ShapedRoutes>& routes) {
  std::vector<std::pair<int, int>> columns;
  for (const ShapedRoutes& shaped : routes) {
    const int column = Add(shaped.shape);
    if (column >= 0 && shaped.routes > 0) columns.push_back({column, shaped.routes});
  }
  return columns.empty() ? ClassedPlan{} : DistributeColumns(columns);
}

ClassedPlan ClassSearch::WholeBy(double seconds, const std::vector<double>& prices) const {
  std::vector<int> numbers;
  std::vector<MasterColumn> columns = MasterColumnsBy(seconds, numbers);
  // Those that come nearest to what their devices are worth.
  std::vector<std::pair<double, int>> order;
  for (size_t i = 0; i < columns.size(); ++i) {
    order.push_back({pool_[numbers[i]].Price(prices) / columns[i].value, static_cast<int>(i)});
  }
  std::sort(order.begin(), order.end());
  if (order.size() > kMostWholeColumns) order.resize(kMostWholeColumns);
  std::vector<MasterColumn> chosen;
  for (const auto& [ratio, i] : order) chosen.push_back(columns[i]);
  if (chosen.empty()) return {};
  const std::vector<int> whole = SolveWhole(chosen, resources_.limits(), routes_, batch_, kMostNodes);
  std::vector<std::pair<int, int>> found;  // column and routes
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] > 0) found.push_back({numbers[order[i].second], whole[i]});
  }
  return found.empty() ? ClassedPlan{} : DistributeColumns(found);
}

ClassedPlan ClassSearch::DistributeColumns(const std::vector<std::pair<int, int>>& columns) const {
  std::vector<TimedRoutes> routes;
  for (const auto& [column, count] : columns)
    routes.push_back({&pool_[column].clock, &pool_[column].after_seconds, count});
  return DealMicroBatches(routes, batch_, lower_bound_seconds_);
}

}  // namespace medley
