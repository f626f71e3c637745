#include "coordinator/planner/search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "coordinator/planner/memory_shortage.h"
#include "coordinator/planner/step_end.h"
#include "coordinator/predictor/communication_time.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of the same times in another order differ by less than this, relatively.
constexpr double kRounding = 1e-12;
// Splits and distributions looked at, at once.
constexpr size_t kMostSplits = 20'000;
constexpr size_t kMostCounts = 50'000;
// Simulations that an arrangement gets before the others have had theirs.
constexpr int64_t kFirstVisit = 200;
// Arrangements, best bound first, near which a good plan is looked for before the exact search.
constexpr size_t kImproved = 30;
// What cheaper evaluations count as, in simulated instructions: of a set of lists, of a distribution of
// micro-batches, of a split, of an order of the routes; and how many stages that bounds look at count as one.
constexpr int64_t kListsInstructions = 3, kCountsInstructions = 5, kSplitInstructions = 10,
                  kNumberingInstructions = 40;
constexpr int64_t kStagesAnInstruction = 40;
// What choosing a reduction costs for each member, in simulated instructions.
constexpr int64_t kChoiceInstructions = 50;

bool SharesProcessor(const PlanningProblem& problem, const std::vector<std::vector<int>>& lists) {
  std::set<int> processors;
  for (const std::vector<int>& list : lists) {
    for (const int d : list) {
      if (!processors.insert(problem.devices[d].processor).second) return true;
    }
  }
  return false;
}

PlanningProblem Unslowed(PlanningProblem problem) {
  for (DeviceCost& device : problem.devices) device.shared_slowdown = 1;
  return problem;
}

// Two units of one host may slow each other down.
bool SlowsDown(const PlanningProblem& problem, const std::vector<std::vector<int>>& lists) {
  std::set<int> hosts;
  for (const std::vector<int>& list : lists) {
    for (const int d : list) {
      const DeviceCost& device = problem.devices[d];
      if (device.shared_with > 0 && device.host >= 0 && !hosts.insert(device.host).second) return true;
    }
  }
  return false;
}

// Messages of one route share an end only where a stage has two neighbours.
bool SharesMessages(const std::vector<std::vector<int>>& lists) {
  return std::any_of(lists.begin(), lists.end(),
                     [](const std::vector<int>& list) { return list.size() > 2; });
}

BlockRange BlocksOf(const std::vector<BlockId>& ends, size_t stage) {
  return {stage == 0 ? BlockId(0) : ends[stage - 1], ends[stage]};
}

std::vector<int> InOrder(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Search::Search(const PlanningProblem& problem, const SearchSpace& space, const SearchLimits& limits)
    : problem_(problem),
      space_(space),
      limits_(limits),
      reductions_(problem),
      tables_(problem, reductions_),
      bounds_(tables_),
      simulator_(problem, reductions_),
      unslowed_(Unslowed(problem)),
      unslowed_simulator_(unslowed_, reductions_) {
  const PlanConstraints& constraints = problem.constraints;
  if (constraints.max_routes > 0) space_.max_routes = std::min(space_.max_routes, constraints.max_routes);
  if (constraints.max_stages > 0) space_.max_stages = std::min(space_.max_stages, constraints.max_stages);
  space_.max_stages = std::min(space_.max_stages, tables_.blocks());
}

absl::StatusOr<ChosenPlan> Search::Run() {
  arrangement_limit_ = limits_.max_simulations;
  TryObviousLists();
  std::vector<Arrangement> arrangements;
  Lists lists;
  std::vector<int> left;
  for (const std::vector<int>& members : tables_.classes()) left.push_back(static_cast<int>(members.size()));
  EnumerateLists(lists, left, arrangements);
  SortByBound(arrangements);
  for (size_t a = 0; a < std::min(arrangements.size(), kImproved); ++a) {
    if (arrangements[a].bound_seconds < Below(arrangements[a].units)) Improve(arrangements[a]);
  }

  // Best bound first: a little of each, then all of those that were not done.
  double unfinished_bound = EnoughLists() ? LayersSharedPerfectlySeconds() : kInfinity;
  std::vector<const Arrangement*> waiting;
  for (const Arrangement& arrangement : arrangements) {
    if (arrangement.bound_seconds >= Below(arrangement.units)) continue;
    if (!SearchArrangement(arrangement, kFirstVisit)) waiting.push_back(&arrangement);
  }
  for (const Arrangement* arrangement : waiting) {
    if (arrangement->bound_seconds >= Below(arrangement->units)) continue;
    if (SearchArrangement(*arrangement, limits_.max_simulations)) continue;
    unfinished_bound = std::min(unfinished_bound, arrangement->bound_seconds);
  }
  if (best_.plan.units.empty()) {
    return absl::ResourceExhaustedError(
        DescribeShortage(tables_, std::min<int>(space_.min_stages, static_cast<int>(problem_.devices.size())),
                         space_.max_stages));
  }
  best_.proven_optimal = unfinished_bound >= best_.step_seconds * (1 - kRounding);
  best_.lower_bound_seconds = best_.proven_optimal ? best_.step_seconds : unfinished_bound;
  return best_;
}

void Search::SortByBound(std::vector<Arrangement>& arrangements) {
  std::stable_sort(arrangements.begin(), arrangements.end(), [](const Arrangement& a, const Arrangement& b) {
    return a.bound_seconds != b.bound_seconds ? a.bound_seconds < b.bound_seconds : a.units < b.units;
  });
}

// Every multiset of lists of classes, each once: lists do not descend.
void Search::EnumerateLists(Lists& lists, std::vector<int>& left, std::vector<Arrangement>& found) {
  const int routes = static_cast<int>(lists.size());
  if (routes >= space_.min_routes) AddArrangements(lists, found);
  ++device_lists_;
  if (routes >= space_.max_routes || EnoughLists()) return;
  std::vector<int> list;
  ExtendList(lists, list, lists.empty() ? Order::kAfterPrevious : Order::kBeginsPrevious, left, found);
}

void Search::ExtendList(Lists& lists, std::vector<int>& list, Order order, std::vector<int>& left,
                        std::vector<Arrangement>& found) {
  const size_t length = list.size();
  if (order == Order::kBeginsPrevious && length == lists.back().size()) order = Order::kAfterPrevious;
  if (static_cast<int>(length) >= space_.min_stages && order == Order::kAfterPrevious) {
    lists.push_back(list);
    EnumerateLists(lists, left, found);
    lists.pop_back();
  }
  if (static_cast<int>(length) >= space_.max_stages) return;
  const int first = order == Order::kBeginsPrevious ? lists.back()[length] : 0;
  for (int c = first; c < static_cast<int>(left.size()); ++c) {
    if (left[c] == 0) continue;
    if (EnoughLists()) return;
    const bool begins = order == Order::kBeginsPrevious && c == first;
    --left[c];
    list.push_back(c);
    ExtendList(lists, list, begins ? Order::kBeginsPrevious : Order::kAfterPrevious, left, found);
    list.pop_back();
    ++left[c];
  }
}

// No plan is faster: all layers' work, divided over all devices without loss, with the best micro-batch size.
double Search::LayersSharedPerfectlySeconds() const {
  double best = kInfinity;
  for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
    if (!tables_.Divides(static_cast<int>(size))) continue;
    double rate = 0;
    for (const DeviceCost& device : problem_.devices) {
      const PassTimes& layer = device.times[size].layer;
      rate += 1 / std::max(1e-300, layer.forward_seconds + layer.backward_seconds);
    }
    best = std::min(best, tables_.MicroBatches(static_cast<int>(size)) * problem_.shape.model.layers / rate);
  }
  return best;
}

Search::Arrangement Search::Arrange(const Lists& lists) {
  Arrangement arrangement;
  std::vector<int> used(tables_.classes().size(), 0), all, tied;
  for (const std::vector<int>& list : lists) {
    arrangement.lists.push_back(bounds_.ListOf(list));
    std::vector<int>& devices = arrangement.devices.emplace_back();
    for (const int c : list) devices.push_back(tables_.classes()[c][used[c]++]);
    all.insert(all.end(), devices.begin(), devices.end());
    tied.push_back(devices.front());
    if (devices.size() > 1) tied.push_back(devices.back());
  }
  arrangement.units = static_cast<int>(all.size());
  arrangement.shares_processor = SharesProcessor(problem_, arrangement.devices);
  arrangement.bounded_alone =
      !arrangement.shares_processor && !(SharesMessages(lists) && SlowsDown(problem_, arrangement.devices));
  arrangement.scalars_seconds = ReduceScalarsSeconds(problem_, all);
  arrangement.tied_seconds = LeastTiedReductionSeconds(
      tables_, tied, tied.size() > lists.size() ? TiedHolders::kTheirOwn : TiedHolders::kOfFirstBlockToo);
  return arrangement;
}

RouteBounds::Work Search::WorkOf(const Arrangement& arrangement, size_t route, int micro_batches) const {
  return {.list = arrangement.lists[route],
          .size = arrangement.size,
          .schedule = arrangement.schedule,
          .micro_batches = micro_batches,
          .replicated = arrangement.lists.size() > 1};
}

double Search::Bound(const Arrangement& arrangement, size_t route, int micro_batches) {
  return bounds_.Bound(WorkOf(arrangement, route, micro_batches)) + arrangement.fixed_seconds();
}

// Whether the routes can together take all micro-batches below the best plan's time.
bool Search::WorthBounding(const Arrangement& arrangement) {
  const int total = tables_.MicroBatches(arrangement.size);
  const int routes = static_cast<int>(arrangement.lists.size());
  const double below = Below(arrangement.units);
  int possible = 0;
  for (int r = 0; r < routes; ++r) {
    int most = 0, too_many = total - routes + 2;
    while (too_many - most > 1) {
      const int count = (most + too_many) / 2;
      (Bound(arrangement, r, count) < below ? most : too_many) = count;
    }
    if (most == 0) return false;
    possible += most;
  }
  return possible >= total;
}

// Micro-batches of each route so that the greatest bound is least. Empty if no distribution fits.
std::vector<int> Search::BestCounts(const Arrangement& arrangement) {
  const size_t routes = arrangement.lists.size();
  std::vector<int> counts(routes, 1);
  std::vector<double> next(routes);
  for (size_t r = 0; r < routes; ++r) {
    if (Bound(arrangement, r, 1) == kInfinity) return {};
    next[r] = Bound(arrangement, r, std::min(2, tables_.MicroBatches(arrangement.size)));
  }
  for (int left = tables_.MicroBatches(arrangement.size) - static_cast<int>(routes); left > 0; --left) {
    const size_t r = std::min_element(next.begin(), next.end()) - next.begin();
    if (next[r] == kInfinity) return {};
    ++counts[r];
    next[r] = left > 1 ? Bound(arrangement, r, counts[r] + 1) : 0;
  }
  return counts;
}

// With each micro-batch size and schedule, if it may be better than the best plan.
void Search::AddArrangements(const Lists& lists, std::vector<Arrangement>& found) {
  evaluated_ += kListsInstructions;
  Arrangement arrangement = Arrange(lists);
  const bool pipelines = arrangement.units > static_cast<int>(lists.size());
  const std::vector<Schedule>& schedules = problem_.constraints.schedules;
  const bool has_1f1b =
      std::find(schedules.begin(), schedules.end(), Schedule::kOneForwardOneBackward) != schedules.end();
  for (int size = 0; size < static_cast<int>(problem_.micro_batch_sizes.size()); ++size) {
    if (!tables_.Divides(size) || static_cast<int>(lists.size()) > tables_.MicroBatches(size)) continue;
    for (const Schedule schedule : schedules) {
      // Without a pipeline all schedules take the same time, and 1F1B the least memory.
      if (!pipelines && has_1f1b && schedule != Schedule::kOneForwardOneBackward) continue;
      arrangement.size = size;
      arrangement.schedule = schedule;
      if (!WorthBounding(arrangement)) continue;
      const std::vector<int> counts = BestCounts(arrangement);
      arrangement.bound_seconds = counts.empty() ? kInfinity : 0;
      for (size_t r = 0; r < counts.size(); ++r) {
        arrangement.bound_seconds = std::max(arrangement.bound_seconds, Bound(arrangement, r, counts[r]));
      }
      if (arrangement.bound_seconds < Below(arrangement.units)) found.push_back(arrangement);
    }
  }
}

// The fastest devices, one to all of them, each with the whole model or in one pipeline.
void Search::TryObviousLists() {
  std::vector<int> order;
  for (int c = 0; c < static_cast<int>(tables_.classes().size()); ++c) {
    order.insert(order.end(), tables_.classes()[c].size(), c);
  }
  const int whole = tables_.blocks();
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return tables_.ForwardSeconds(a, 0, {0, whole}) + tables_.BackwardSeconds(a, 0, {0, whole}) <
           tables_.ForwardSeconds(b, 0, {0, whole}) + tables_.BackwardSeconds(b, 0, {0, whole});
  });
  std::vector<Arrangement> obvious;
  for (size_t count = 1; count <= order.size(); ++count) {
    const std::vector<int> fastest(order.begin(), order.begin() + count);
    Lists apart;
    for (const int c : fastest) apart.push_back({c});
    std::sort(apart.begin(), apart.end());
    const int n = static_cast<int>(count);
    if (n <= space_.max_routes && n >= space_.min_routes && space_.min_stages <= 1)
      AddArrangements(apart, obvious);
    if (n <= space_.max_stages && n >= space_.min_stages && space_.min_routes <= 1) {
      AddArrangements({fastest}, obvious);
      AddArrangements({std::vector<int>(fastest.rbegin(), fastest.rend())}, obvious);
    }
  }
  SortByBound(obvious);
  for (const Arrangement& arrangement : obvious) {
    if (OutOfBudget()) return;
    if (arrangement.bound_seconds < Below(arrangement.units)) GreedyChoice(arrangement);
  }
}

// The counts and splits that look best by bound, simulated once. Empty if nothing fits.
std::vector<Search::RouteChoice> Search::GreedyChoice(const Arrangement& arrangement) {
  const std::vector<int> counts = BestCounts(arrangement);
  std::vector<RouteChoice> choice;
  for (size_t r = 0; r < counts.size(); ++r) {
    const RouteBounds::Work work = WorkOf(arrangement, r, counts[r]);
    std::vector<RouteBounds::Split> splits;
    for (const double slack : {1.001, 1.01, 1.1, kInfinity}) {
      splits = bounds_.Splits(work, bounds_.Bound(work) * slack + 1e-300, 1000);
      if (!splits.empty()) break;
    }
    if (splits.empty()) return {};
    choice.push_back({counts[r], splits[0].ends});
  }
  if (!choice.empty()) Simulate(arrangement, choice, InOrder(choice.size()));
  return choice;
}

// Moves single blocks between neighbouring stages and single micro-batches between routes while that helps.
void Search::Improve(const Arrangement& arrangement) {
  std::vector<RouteChoice> choice = GreedyChoice(arrangement);
  if (choice.empty()) return;
  const std::vector<int> order = InOrder(choice.size());
  double seconds = Simulate(arrangement, choice, order);
  const auto try_choice = [&](const std::vector<RouteChoice>& changed) {
    if (BoundOfChoice(arrangement, changed) >= seconds) return false;
    const double changed_seconds = Simulate(arrangement, changed, order);
    if (changed_seconds >= seconds) return false;
    seconds = changed_seconds;
    choice = changed;
    return true;
  };
  for (bool better = true; better && !OutOfBudget();) {
    better = false;
    for (size_t r = 0; r < choice.size(); ++r) {
      for (size_t s = 0; s + 1 < choice[r].ends.size(); ++s) {
        for (const int step : {-1, 1}) {
          std::vector<RouteChoice> changed = choice;
          changed[r].ends[s] = changed[r].ends[s] + step;
          if (try_choice(changed)) better = true;
        }
      }
      for (size_t to = 0; to < choice.size(); ++to) {
        if (to == r || choice[r].micro_batches < 2) continue;
        std::vector<RouteChoice> changed = choice;
        --changed[r].micro_batches;
        ++changed[to].micro_batches;
        if (try_choice(changed)) better = true;
      }
    }
  }
}

// The bound of one complete choice; infinite if it does not fit.
double Search::BoundOfChoice(const Arrangement& arrangement, const std::vector<RouteChoice>& choice) {
  double bound = 0;
  std::map<int, double> processors;
  for (size_t r = 0; r < choice.size(); ++r) {
    bound = std::max(bound,
                     bounds_.BoundOfSplit(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends));
    for (size_t s = 0; arrangement.shares_processor && s < choice[r].ends.size(); ++s) {
      const int c = bounds_.ClassesOf(arrangement.lists[r])[s];
      const BlockRange blocks = BlocksOf(choice[r].ends, s);
      if (blocks.size() < 1) break;
      const DeviceCost& cost = problem_.devices[arrangement.devices[r][s]];
      processors[cost.processor] +=
          choice[r].micro_batches * (tables_.ForwardSeconds(c, arrangement.size, blocks) +
                                     tables_.BackwardSeconds(c, arrangement.size, blocks)) +
          static_cast<double>(tables_.Parameters(blocks)) * cost.update_seconds_per_parameter;
    }
  }
  for (const auto& [processor, seconds] : processors) bound = std::max(bound, seconds);
  return bound + arrangement.fixed_seconds();
}

struct Search::Choosing {
  explicit Choosing(const Arrangement& arranged) : arrangement(arranged) {}

  const Arrangement& arrangement;
  std::vector<size_t> routes;                           // in the order of choosing
  std::vector<std::vector<RouteBounds::Split>> splits;  // of each route
  std::vector<RouteChoice> choice;                      // of each route
  // The latest end of reductions and the longest update of what is chosen.
  double reduced_seconds = 0, update_seconds = 0;
  bool complete = true;
};

bool Search::SearchArrangement(const Arrangement& arrangement, int64_t simulations) {
  arrangement_limit_ = best_.simulated_plans + simulations;
  if (OutOfBudget()) return false;
  const std::vector<std::vector<int>> all = CountsBelow(arrangement, Below(arrangement.units));
  evaluated_ += kCountsInstructions * static_cast<int64_t>(all.size());
  bool complete = all.size() < kMostCounts;
  for (const std::vector<int>& counts : all) {
    if (!SearchCounts(arrangement, counts)) complete = false;
    if (OutOfBudget()) return false;
  }
  return complete;
}

// Micro-batches of each route, all ways whose bound is below `below`, the least bound first.
std::vector<std::vector<int>> Search::CountsBelow(const Arrangement& arrangement, double below) {
  const int routes = static_cast<int>(arrangement.lists.size());
  const int total = tables_.MicroBatches(arrangement.size);
  std::vector<std::pair<double, std::vector<int>>> found;
  std::vector<int> counts, most(routes, 0);
  for (int r = 0; r < routes; ++r) {
    while (most[r] <= total - routes && Bound(arrangement, r, most[r] + 1) < below) ++most[r];
  }
  const auto extend = [&](const auto& self, int left, double bound) -> void {
    const int r = static_cast<int>(counts.size());
    if (r == routes) {
      if (left == 0) found.push_back({bound, counts});
      return;
    }
    const int later = std::accumulate(most.begin() + r + 1, most.end(), 0);
    int last = std::min(most[r], left - (routes - r - 1));
    // Equal lists are interchangeable: the first takes the most.
    if (r > 0 && arrangement.lists[r] == arrangement.lists[r - 1]) last = std::min(last, counts.back());
    for (int count = last; count >= std::max(1, left - later) && found.size() < kMostCounts; --count) {
      counts.push_back(count);
      self(self, left - count, std::max(bound, Bound(arrangement, r, count)));
      counts.pop_back();
    }
  };
  extend(extend, total, 0);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<int>> ordered;
  for (auto& [bound, way] : found) ordered.push_back(std::move(way));
  return ordered;
}

bool Search::SearchCounts(const Arrangement& arrangement, const std::vector<int>& counts) {
  const size_t routes = counts.size();
  Choosing choosing(arrangement);
  std::vector<double> bounds;
  for (size_t r = 0; r < routes; ++r) {
    if (Bound(arrangement, r, counts[r]) >= Below(arrangement.units)) return true;
    choosing.routes.push_back(r);
    choosing.choice.push_back({counts[r], {}});
    bounds.push_back(Bound(arrangement, r, counts[r]));
    choosing.splits.push_back(bounds_.Splits(WorkOf(arrangement, r, counts[r]),
                                             Below(arrangement.units) - arrangement.fixed_seconds(),
                                             kMostSplits));
    if (choosing.splits[r].empty()) return true;
    if (choosing.splits[r].size() >= kMostSplits) choosing.complete = false;
  }
  // The slowest route first: it decides the most.
  std::stable_sort(choosing.routes.begin(), choosing.routes.end(),
                   [&](size_t a, size_t b) { return bounds[a] > bounds[b]; });
  ChooseSplits(choosing, 0);
  return choosing.complete;
}

void Search::ChooseSplits(Choosing& choosing, size_t next) {
  const Arrangement& arrangement = choosing.arrangement;
  if (next == choosing.routes.size()) return TryNumberings(choosing);
  const size_t r = choosing.routes[next];
  const double reduced_before = choosing.reduced_seconds, update_before = choosing.update_seconds;
  for (const RouteBounds::Split& split : choosing.splits[r]) {
    if (split.bound_seconds + arrangement.fixed_seconds() >= Below(arrangement.units)) break;
    if (OutOfBudget()) {
      choosing.complete = false;
      break;
    }
    choosing.choice[r].ends = split.ends;
    evaluated_ += kSplitInstructions;
    // Routes without a processor in common do not help each other before the reductions.
    if (arrangement.bounded_alone && arrangement.lists.size() > 1) AddLastBackwards(choosing, r);
    if (choosing.reduced_seconds + arrangement.scalars_seconds + choosing.update_seconds <
        Below(arrangement.units)) {
      ChooseSplits(choosing, next + 1);
    }
    choosing.reduced_seconds = reduced_before;
    choosing.update_seconds = update_before;
  }
}

void Search::AddLastBackwards(Choosing& choosing, size_t route) {
  const Arrangement& arrangement = choosing.arrangement;
  const std::vector<BlockId>& ends = choosing.choice[route].ends;
  const std::vector<double>& last_backwards = LastBackwards(arrangement, route, choosing.choice[route]);
  for (size_t s = 0; s < ends.size(); ++s) {
    const BlockRange blocks = BlocksOf(ends, s);
    const DeviceCost& cost = problem_.devices[arrangement.devices[route][s]];
    const int device_class = bounds_.ClassesOf(arrangement.lists[route])[s];
    double reduced = last_backwards[s] + tables_.ReducedAfterSeconds(device_class, arrangement.size, blocks);
    if (s == 0 || s + 1 == ends.size()) reduced += arrangement.tied_seconds;  // reduced after all else
    choosing.reduced_seconds = std::max(choosing.reduced_seconds, reduced);
    choosing.update_seconds =
        std::max(choosing.update_seconds,
                 static_cast<double>(tables_.Parameters(blocks)) * cost.update_seconds_per_parameter);
  }
}

// All orders of the routes: it decides the rings and who answers for shared norms.
void Search::TryNumberings(Choosing& choosing) {
  const Arrangement& arrangement = choosing.arrangement;
  const std::vector<RouteChoice>& choice = choosing.choice;
  if (!arrangement.bounded_alone && BoundOfChoice(arrangement, choice) >= Below(arrangement.units)) return;
  // Routes that are alike carry the number of the first of them, so that exchanging them is no other order.
  std::vector<int> numbers;
  std::map<int, std::vector<int>> alike;
  for (int r = 0; r < static_cast<int>(choice.size()); ++r) {
    int first = 0;
    while (arrangement.lists[first] != arrangement.lists[r] || !(choice[first] == choice[r])) ++first;
    numbers.push_back(first);
    alike[first].push_back(r);
  }
  std::sort(numbers.begin(), numbers.end());
  do {
    if (OutOfBudget()) {
      choosing.complete = false;
      return;
    }
    std::vector<int> order;
    std::map<int, int> placed;
    for (const int number : numbers) order.push_back(alike[number][placed[number]++]);
    TryNumbering(choosing, order);
  } while (std::next_permutation(numbers.begin(), numbers.end()));
}

void Search::TryNumbering(Choosing& choosing, const std::vector<int>& order) {
  const Arrangement& arrangement = choosing.arrangement;
  const std::vector<RouteChoice>& choice = choosing.choice;
  evaluated_ += kNumberingInstructions;
  if (arrangement.bounded_alone && choice.size() > 1) {
    std::vector<UnitEnd> units;
    for (const int r : order) {
      const std::vector<double>& last_backwards = LastBackwards(arrangement, r, choice[r]);
      const std::vector<int>& classes = bounds_.ClassesOf(arrangement.lists[r]);
      for (size_t s = 0; s < choice[r].ends.size(); ++s) {
        units.push_back({arrangement.devices[r][s], classes[s], arrangement.size, BlocksOf(choice[r].ends, s),
                         last_backwards[s]});
      }
    }
    if (StepEndSeconds(tables_, units) >= Below(arrangement.units)) return;
  }
  Simulate(arrangement, choice, order);
}

// When each unit of a route has run its last backward, as if there were no other routes and nothing slowed
// anything down.
const std::vector<double>& Search::LastBackwards(const Arrangement& arrangement, size_t route,
                                                 const RouteChoice& choice) {
  std::vector<int> key(choice.ends.begin(), choice.ends.end());
  key.insert(key.end(), {arrangement.lists[route], arrangement.size, static_cast<int>(arrangement.schedule),
                         choice.micro_batches});
  const auto [entry, inserted] = last_backwards_.try_emplace(std::move(key));
  if (!inserted) return entry->second;
  Arrangement alone{.size = arrangement.size, .schedule = arrangement.schedule};
  alone.lists = {arrangement.lists[route]};
  alone.devices = {arrangement.devices[route]};
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = unslowed_simulator_.Run(PlanOf(alone, {choice}, {0}));
  for (size_t s = 0; s < choice.ends.size(); ++s) {
    entry->second.push_back(seconds.ok() ? unslowed_simulator_.LastBackwardSeconds(static_cast<int>(s))
                                         : kInfinity);
  }
  return entry->second;
}

double Search::Simulate(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                        const std::vector<int>& order) {
  Plan plan = PlanOf(arrangement, choice, order);
  ++best_.simulated_plans;
  const absl::StatusOr<double> seconds = simulator_.Run(plan);
  if (!seconds.ok()) return kInfinity;
  if (*seconds < Below(arrangement.units)) {
    best_.plan = std::move(plan);
    best_.step_seconds = *seconds;
  }
  return *seconds;
}

Plan Search::PlanOf(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                    const std::vector<int>& order) const {
  Plan plan{.schedule = arrangement.schedule};
  for (const int r : order) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = choice[r].micro_batches;
    route.micro_batch_sequences = problem_.micro_batch_sizes[arrangement.size];
    for (size_t s = 0; s < choice[r].ends.size(); ++s) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      const DeviceCost& device = problem_.devices[arrangement.devices[r][s]];
      plan.units.push_back({.devices = {device.name},
                            .chunks = {BlocksOf(choice[r].ends, s)},
                            .activations = device.activations});
    }
  }
  return plan;
}

double Search::Below(int units) const {
  if (best_.plan.units.empty()) return kInfinity;
  const bool fewer_units = units < static_cast<int>(best_.plan.units.size());
  return best_.step_seconds * (fewer_units ? 1 + kRounding : 1 - kRounding);
}

int64_t Search::SpentInstructions() const {
  return simulator_.simulated_instructions() + unslowed_simulator_.simulated_instructions() + evaluated_ +
         kChoiceInstructions * reductions_.chosen_members() + bounds_.looked_at() / kStagesAnInstruction;
}

// What is not enumerated is not searched, so the search keeps a part of what may be spent.
bool Search::EnoughLists() const {
  return device_lists_ >= limits_.max_device_lists ||
         SpentInstructions() >= limits_.max_simulated_instructions * 3 / 4;
}

bool Search::OutOfBudget() const {
  return best_.simulated_plans >= limits_.max_simulations || best_.simulated_plans >= arrangement_limit_ ||
         SpentInstructions() >= limits_.max_simulated_instructions;
}

}  // namespace medley
