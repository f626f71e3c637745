#include <algorithm>
#include <numeric>

#include "coordinator/planner/search.h"
#include "coordinator/planner/step_end.h"

// The exact search of one arrangement.
namespace medley {
namespace {

// Splits and distributions looked at, at once.
constexpr size_t kMostSplits = 20'000;
constexpr size_t kMostCounts = 50'000;
// A first visit may spend this part of all.
constexpr int64_t kVisits = 1000;
// What a distribution of micro-batches, a split and an order of the routes cost, in simulated instructions.
constexpr int64_t kCountsInstructions = 5, kSplitInstructions = 10, kNumberingInstructions = 40;

}  // namespace

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
  // Where the optimizer's state is shared most of what is looked at may not fit together, and is never
  // simulated.
  const bool is_first_visit = simulations < limits_.max_simulations;
  arrangement_instructions_ = (arrangement.shards_optimizer || arrangement.homes_layers) && is_first_visit
                                  ? SpentInstructions() + limits_.max_simulated_instructions / kVisits
                                  : 0;
  if (OutOfBudget()) return false;
  const std::vector<std::vector<int>> all = CountsBelow(arrangement, Below(arrangement.units));
  evaluated_ += kCountsInstructions * static_cast<int64_t>(all.size());
  bool complete = all.size() < kMostCounts && !OutOfBudget();
  for (const std::vector<int>& counts : all) {
    if (!SearchCounts(arrangement, counts)) complete = false;
    if (OutOfBudget()) return false;
  }
  return complete;
}

// Micro-batches of each route, all ways whose bound is below `below`, the least bound first.
std::vector<std::vector<int>> Search::CountsBelow(const Arrangement& arrangement, double below) {
  const int routes = static_cast<int>(arrangement.lists.size());
  std::vector<std::pair<double, std::vector<int>>> found;
  std::vector<int> counts, most(routes, 0);
  // Sequences that the routes from each one on take at least and at most.
  std::vector<int> least_from(routes + 1, 0), most_from(routes + 1, 0);
  for (int r = routes - 1; r >= 0; --r) {
    const int limit = MostMicroBatches(arrangement, r);
    most[r] = MostMicroBatchesBelow(arrangement, r, limit, below);
    least_from[r] = least_from[r + 1] + SequencesOf(arrangement, r);
    most_from[r] = most_from[r + 1] + most[r] * SequencesOf(arrangement, r);
  }
  const auto extend = [&](const auto& self, int left, double bound) -> void {
    const int r = static_cast<int>(counts.size());
    if (r == routes) {
      if (left == 0) found.push_back({bound, counts});
      return;
    }
    const int sequences = SequencesOf(arrangement, r);
    const int first = std::max(1, (left - most_from[r + 1] + sequences - 1) / sequences);
    int last = std::min(most[r], (left - least_from[r + 1]) / sequences);
    // Equal lists of one micro-batch size are interchangeable: the first takes the most.
    if (r > 0 && arrangement.lists[r] == arrangement.lists[r - 1] &&
        arrangement.sizes[r] == arrangement.sizes[r - 1])
      last = std::min(last, counts.back());
    for (int count = last; count >= first && found.size() < kMostCounts; --count) {
      if (OutOfBudget()) return;
      counts.push_back(count);
      self(self, left - count * sequences, std::max(bound, Bound(arrangement, r, count)));
      counts.pop_back();
    }
  };
  extend(extend, problem_.shape.global_batch_sequences, 0);
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
  if (KnowsRooms(arrangement)) DropSplitsWithoutRoom(arrangement, counts, choosing.splits);
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
    const BlockRange blocks = choosing.choice[route].blocks(s);
    const DeviceCost& cost = problem_.devices[arrangement.devices[route][s]];
    const int device_class = bounds_.ClassesOf(arrangement.lists[route])[s];
    double reduced =
        last_backwards[s] + tables_.ReducedAfterSeconds(device_class, arrangement.sizes[route], blocks);
    if (s == 0 || s + 1 == ends.size()) reduced += arrangement.tied_seconds;  // reduced after all else
    choosing.reduced_seconds = std::max(choosing.reduced_seconds, reduced);
    choosing.update_seconds =
        std::max(choosing.update_seconds,
                 static_cast<double>(tables_.Parameters(blocks)) * cost.update_seconds_per_parameter);
  }
}

int Search::FirstAlike(const Arrangement& arrangement, const std::vector<RouteChoice>& choice, int route) {
  int first = 0;
  while (arrangement.lists[first] != arrangement.lists[route] ||
         arrangement.sizes[first] != arrangement.sizes[route] || !(choice[first] == choice[route]))
    ++first;
  return first;
}

bool Search::IsFirstNumbering(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                              const std::vector<int>& order) {
  return std::is_sorted(order.begin(), order.end(), [&](int a, int b) {
    return FirstAlike(arrangement, choice, a) < FirstAlike(arrangement, choice, b);
  });
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
    numbers.push_back(FirstAlike(arrangement, choice, r));
    alike[numbers.back()].push_back(r);
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
      const std::vector<UnitSaving> savings =
          bounds_.LeastSavingsOf(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends);
      for (size_t s = 0; s < choice[r].ends.size(); ++s) {
        units.push_back({arrangement.devices[r][s], classes[s], arrangement.sizes[r], choice[r].blocks(s),
                         savings[s], last_backwards[s]});
      }
    }
    if (StepEndSeconds(tables_, units) >= Below(arrangement.units)) return;
  }
  Simulate(arrangement, choice, order);
}

}  // namespace medley
