#include "coordinator/planner/classes/route_boxes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/base/stop_flag.h"

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
constexpr int kMostWorst = 200;
// Periods are told apart up to that part of them.
constexpr double kRounding = 1e-4;

}  // namespace

BoxSearch::BoxSearch(PlanKind& kind, std::vector<int> devices, std::vector<double> prices, double route_price,
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

double BoxSearch::Run(const std::vector<Box>& parts) {
  for (int i = 0; parts.empty() && i < static_cast<int>(pricings_.size()); ++i) AddAll(i);
  for (Box box : parts) {
    if (IsStopped(stop_)) break;
    box.seconds = 0;
    Add(box);
  }
  while (!boxes_.empty() && questions_ < kMostQuestions && !IsStopped(stop_)) {
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

std::vector<Box> BoxSearch::Parts() const {
  std::vector<Box> parts = done_;
  for (std::priority_queue<Box> left = boxes_; !left.empty(); left.pop()) parts.push_back(left.top());
  return parts;
}

std::vector<RouteShape> BoxSearch::Worst() {
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

int BoxSearch::MostStages(const Box& box) const {
  return std::min(box.most_stages, pricings_[box.pricing].most_stages());
}

void BoxSearch::AddExactly(Box box) {
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

int BoxSearch::SplitStages(const Box& box) const {
  if (box.split_stages > 0) return box.split_stages;
  const int most = MostStages(box);
  if (box.stages < most && box.stages < box.least_m && box.stages <= kMostExactStages) return box.stages;
  return 0;
}

void BoxSearch::AddAll(int pricing) {
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

void BoxSearch::Add(Box box) {
  if (Bound(box)) {
    boxes_.push(box);
  } else {
    done_.push_back(box);
  }
}

bool BoxSearch::Bound(Box& box) {
  if ((box.least_m - 1) * box.least_period >= upper_seconds_) return false;
  box.split_stages = 0;
  box.exact = false;
  const Trips trips = TripsOf(box.least_m, MostStages(box));
  if (trips.ways > 1 && MostStages(box) <= kMostExactStages && !BoundBy(box, trips)) return false;
  if (!BoundBy(box, {})) return false;
  box.number = questions_;
  return true;
}

bool BoxSearch::BoundBy(Box& box, Trips trips) {
  const double one = Sequences(box.pricing);
  const auto other_seconds = [&](int m) { return trips.ways > 1 ? 0 : (m - 1) * box.least_period; };
  Cheapest cheap, dear, found;
  int m = box.most_m;
  double price_of_second = one / box.least_period / trips.ways;
  // False: none is worth its price in time.
  const auto ask = [&] {
    const double most = (upper_seconds_ - other_seconds(m)) * price_of_second + one * m - route_price_;
    if (!Ask(box, trips, prices_, price_of_second, most, found)) return false;
    box.seconds = std::max(box.seconds,
                           (found.price - one * m) / price_of_second + found.way_seconds + other_seconds(m));
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

ShapePricing::Question BoxSearch::About(const Box& box, Trips trips, const std::vector<double>& prices,
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
          .gathered_over_summed = kind_.gathered_over_summed()};
}

bool BoxSearch::Ask(const Box& box, Trips trips, const std::vector<double>& prices, double price_of_second,
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

}  // namespace medley
