#include <algorithm>
#include <limits>
#include <set>

#include "coordinator/planner/search.h"
#include "coordinator/planner/step_end.h"
#include "coordinator/predictor/communication_time.h"

// Which arrangements there are.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What looking at a set of lists costs, in simulated instructions.
constexpr int64_t kListsInstructions = 3;

bool SharesProcessor(const PlanningProblem& problem, const std::vector<std::vector<int>>& lists) {
  std::set<int> processors;
  for (const std::vector<int>& list : lists) {
    for (const int d : list) {
      if (!processors.insert(problem.devices[d].processor).second) return true;
    }
  }
  return false;
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

}  // namespace

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
    // What is taken only grows.
    const Taken before = taken_;
    if (!Take(c, taken_)) {
      taken_ = before;
      continue;
    }
    --left[c];
    list.push_back(c);
    ExtendList(lists, list, begins ? Order::kBeginsPrevious : Order::kAfterPrevious, left, found);
    list.pop_back();
    ++left[c];
    taken_ = before;
  }
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

// Whether the routes can together take all micro-batches below the best plan's time.
bool Search::WorthBounding(const Arrangement& arrangement) {
  const int total = tables_.MicroBatches(arrangement.size);
  const int routes = static_cast<int>(arrangement.lists.size());
  const double below = Below(arrangement.units);
  int possible = 0;
  for (int r = 0; r < routes; ++r) {
    if (limits_.stopped()) return false;
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

// Micro-batches of each route so that the greatest bound is least. Empty if no distribution fits, or planning was
// stopped.
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
    if (next[r] == kInfinity || limits_.stopped()) return {};
    ++counts[r];
    next[r] = left > 1 ? Bound(arrangement, r, counts[r] + 1) : 0;
  }
  return counts;
}

// Whether two units of such lists hold the same parameters.
bool Search::CanShardOptimizer(const Lists& lists) const {
  return lists.size() > 1 || (lists[0].size() > 1 && tables_.TiedParameters() > 0);
}

// With each micro-batch size, schedule and way to hold the optimizer's state, if it may be better than the
// best plan.
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
      arrangement.size = size;
      arrangement.schedule = schedule;
      // Without a pipeline all schedules take the same time, and 1F1B the least memory, but for the number of
      // copies where layers live in host memory.
      const bool told_apart = pipelines || !has_1f1b || schedule == Schedule::kOneForwardOneBackward;
      if (told_apart) AddArrangement(arrangement, found);
      if (space_.saving.homes_layers) AddWithHomes(arrangement, found);
      if (!space_.saving.shards_optimizer || !CanShardOptimizer(lists)) continue;
      Arrangement sharded = arrangement;
      sharded.shards_optimizer = true;
      sharded.bounded_alone = false;
      // In a pipeline the units between update all of theirs while its ends gather the tied embedding.
      if (lists.size() == 1) sharded.tied_seconds /= 2;
      if (told_apart) AddArrangement(sharded, found);
      if (space_.saving.homes_layers) AddWithHomes(sharded, found);
    }
  }
}

// Only where a device's copies are known.
void Search::AddWithHomes(Arrangement arrangement, std::vector<Arrangement>& found) {
  const bool can = std::any_of(
      arrangement.devices.begin(), arrangement.devices.end(), [&](const std::vector<int>& devices) {
        return std::any_of(devices.begin(), devices.end(),
                           [&](int d) { return CopiesAreMeasured(problem_.devices[d]); });
      });
  if (!can) return;
  arrangement.homes_layers = true;
  arrangement.bounded_alone = false;
  AddArrangement(std::move(arrangement), found);
}

void Search::AddArrangement(Arrangement arrangement, std::vector<Arrangement>& found) {
  if (!WorthBounding(arrangement)) return;
  const std::vector<int> counts = BestCounts(arrangement);
  arrangement.bound_seconds = counts.empty() ? kInfinity : 0;
  for (size_t r = 0; r < counts.size(); ++r)
    arrangement.bound_seconds = std::max(arrangement.bound_seconds, Bound(arrangement, r, counts[r]));
  if (arrangement.bound_seconds < Below(arrangement.units)) found.push_back(std::move(arrangement));
}

}  // namespace medley
