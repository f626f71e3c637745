#include <algorithm>
#include <limits>
#include <set>

#include "coordinator/planner/search.h"
#include "coordinator/planner/step_end.h"
#include "coordinator/predictor/communication_time.h"
#include "runtime/base/greatest_that.h"

// Which arrangements there are.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What looking at a set of lists costs, in simulated instructions.
constexpr int64_t kListsInstructions = 3;
// So many are dealt to routes one micro-batch after another.
constexpr int kManySequences = 256;

bool SharesProcessor(const PlanningProblem& problem, const std::vector<std::vector<int>>& lists) {
  std::set<int> processors;
  for (const std::vector<int>& list : lists) {
    for (const int d : list) {
      if (!processors.insert(problem.devices[d].processor).second) return true;
    }
  }
  return false;
}

// Two units of one host may slow each other down, and sums with other routes a unit's passes.
bool SlowsDown(const PlanningProblem& problem, const std::vector<std::vector<int>>& lists) {
  std::set<int> hosts;
  for (const std::vector<int>& list : lists) {
    for (const int d : list) {
      const DeviceCost& device = problem.devices[d];
      if (lists.size() > 1 && ComputesOnCores(device)) return true;
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

bool Search::HoldsABlock(int device_class) {
  std::set<Dtype> narrower;  // of its own and a neighbour's activations
  const Dtype own = tables_.Cost(device_class).activations;
  for (const DeviceCost& device : problem_.devices) narrower.insert(NarrowerOf(own, device.activations));
  const int longest = std::min<int>(space_.max_stages, static_cast<int>(problem_.devices.size()));
  const auto holds = [&](const SearchTables::Stage& stage) {
    const SearchTables::StageNeeds& needs = tables_.NeedsOf(stage);
    const std::vector<int64_t>& available = tables_.AvailableBytes(device_class);
    for (BlockId first = 0; first < tables_.blocks(); ++first) {
      for (BlockId end = first + 1; end <= tables_.blocks(); ++end) {
        const int at = tables_.At({first, end});
        if (needs.bytes[at] <= available[at]) return true;
        if (space_.saving.homes_layers && !needs.with_windows[at].empty()) return true;
      }
    }
    return false;
  };
  SearchTables::Stage stage = {.device_class = device_class, .activations = own};
  if (space_.saving.shards_optimizer) stage.optimizer = SearchTables::OwnOptimizer::kNone;
  for (stage.size = 0; stage.size < static_cast<int>(problem_.micro_batch_sizes.size()); ++stage.size) {
    if (!tables_.Divides(stage.size)) continue;
    for (const Schedule schedule : problem_.constraints.schedules) {
      stage.schedule = schedule;
      for (stage.from_end = 1; stage.from_end <= longest; ++stage.from_end) {
        for (const bool first : {true, false}) {
          stage.first = first;
          for (const Dtype before : narrower) {
            stage.before = before;
            for (const Dtype narrowest : narrower) {
              stage.narrowest = narrowest;
              if (holds(stage)) return true;
            }
          }
        }
      }
    }
  }
  return false;
}

bool Search::FitsAlone(const std::vector<int>& list) {
  RouteBounds::Work work = {.list = bounds_.ListOf(list),
                            .micro_batches = 1,
                            .replicated = true,
                            .shards_optimizer = space_.saving.shards_optimizer,
                            .homes_layers = space_.saving.homes_layers};
  for (work.size = 0; work.size < static_cast<int>(problem_.micro_batch_sizes.size()); ++work.size) {
    if (!tables_.Divides(work.size)) continue;
    for (const Schedule schedule : problem_.constraints.schedules) {
      work.schedule = schedule;
      if (bounds_.Bound(work) < kInfinity) return true;
    }
  }
  return false;
}

bool Search::Take(int device_class, Taken& taken) const {
  taken.devices += units_.empty() ? 1 : static_cast<int>(units_.front().devices.size());  // all have as many
  taken.price_per_hour += tables_.Cost(device_class).price_per_hour;
  return problem_.constraints.Allow(taken.devices, taken.price_per_hour);
}

void Search::ExtendList(Lists& lists, std::vector<int>& list, Order order, std::vector<int>& left,
                        std::vector<Arrangement>& found) {
  const size_t length = list.size();
  if (order == Order::kBeginsPrevious && length == lists.back().size()) order = Order::kAfterPrevious;
  if (static_cast<int>(length) >= space_.min_stages && order == Order::kAfterPrevious) {
    if (FitsAlone(list)) {
      lists.push_back(list);
      EnumerateLists(lists, left, found);
      lists.pop_back();
    } else {
      ++device_lists_;
    }
  }
  if (static_cast<int>(length) >= space_.max_stages) return;
  const int first = order == Order::kBeginsPrevious ? lists.back()[length] : 0;
  for (int c = first; c < static_cast<int>(left.size()); ++c) {
    if (left[c] == 0 || !holds_a_block_[c]) continue;
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
  // What either half of a ring takes at least, twice, is what any sum does.
  arrangement.shared_tied_seconds = LeastTiedReductionSeconds(tables_, tied, TiedHolders::kOfFirstBlockToo);
  return arrangement;
}

// Of a route, if every other one takes one micro-batch.
int Search::MostMicroBatches(const Arrangement& arrangement, size_t route) const {
  int left = problem_.shape.global_batch_sequences;
  for (size_t r = 0; r < arrangement.sizes.size(); ++r)
    if (r != route) left -= SequencesOf(arrangement, r);
  return left / SequencesOf(arrangement, route);
}

// Of a route, with bounds below `below`; at most `limit`.
int Search::MostMicroBatchesBelow(const Arrangement& arrangement, size_t route, int limit, double below) {
  return GreatestThat(0, limit, [&](int count) { return Bound(arrangement, route, count) < below; });
}

// Whether the routes can together take the whole batch below the best plan's time.
bool Search::WorthBounding(const Arrangement& arrangement) {
  const double below = Below(arrangement.units);
  int possible = 0;
  for (size_t r = 0; r < arrangement.lists.size(); ++r) {
    if (limits_.stopped()) return false;
    const int most = MostMicroBatchesBelow(arrangement, r, MostMicroBatches(arrangement, r), below);
    if (most == 0) return false;
    possible += most * SequencesOf(arrangement, r);
  }
  return possible >= problem_.shape.global_batch_sequences;
}

// Of `left` sequences gives the routes those micro-batches that are taken in order of their bounds before some other one, as long as
// there are many: where there are millions nobody takes one after another.
void Search::TakeMany(const Arrangement& arrangement, std::vector<int>& counts, int& left) {
  const int routes = static_cast<int>(counts.size());
  while (left > kManySequences && !limits_.stopped()) {
    std::vector<int> most(routes);
    double below = kInfinity;
    for (int r = 0; r < routes; ++r) {
      most[r] = counts[r] + std::max(1, left / (2 * routes * SequencesOf(arrangement, r)));
      below = std::min(below, Bound(arrangement, r, most[r]));
    }
    if (below == kInfinity) return;
    const int before = left;
    for (int r = 0; r < routes; ++r) {
      const int count = std::max(counts[r], MostMicroBatchesBelow(arrangement, r, most[r], below));
      left -= (count - counts[r]) * SequencesOf(arrangement, r);
      counts[r] = count;
    }
    if (left == before) return;
  }
}

// The least seconds in which the routes together take the whole batch, or where their sizes are unlike some sequences
// more: a bound of all distributions. Infinite if none fits, or planning was stopped.
double Search::LeastSeconds(const Arrangement& arrangement) {
  const size_t routes = arrangement.lists.size();
  std::vector<int> counts(routes, 1);
  std::vector<double> next(routes);
  double bound = 0;
  int left = problem_.shape.global_batch_sequences;
  for (size_t r = 0; r < routes; ++r) {
    bound = std::max(bound, Bound(arrangement, r, 1));
    left -= SequencesOf(arrangement, r);
  }
  if (bound == kInfinity) return kInfinity;
  TakeMany(arrangement, counts, left);
  for (size_t r = 0; r < routes && left > 0; ++r) {
    bound = std::max(bound, Bound(arrangement, r, counts[r]));
    next[r] = Bound(arrangement, r, counts[r] + 1);
  }
  while (left > 0) {
    const size_t r = std::min_element(next.begin(), next.end()) - next.begin();
    if (next[r] == kInfinity || limits_.stopped()) return kInfinity;
    bound = std::max(bound, next[r]);
    left -= SequencesOf(arrangement, r);
    ++counts[r];
    if (left > 0) next[r] = Bound(arrangement, r, counts[r] + 1);
  }
  return bound;
}

// Micro-batches of each route, with which the greatest bound is least where all sizes are alike, and small elsewhere.
// Empty if none was found, or planning was stopped.
std::vector<int> Search::BestCounts(const Arrangement& arrangement) {
  const size_t routes = arrangement.lists.size();
  int left = problem_.shape.global_batch_sequences;
  for (size_t r = 0; r < routes; ++r) left -= SequencesOf(arrangement, r);
  // Whether some micro-batches of the routes' sizes have so many sequences.
  std::vector<bool> adds_up(std::max(left, 0) + 1, false);
  adds_up[0] = true;
  for (size_t r = 0; r < routes; ++r) {
    for (int n = SequencesOf(arrangement, r); n <= left; ++n)
      if (adds_up[n - SequencesOf(arrangement, r)]) adds_up[n] = true;
  }
  std::vector<int> counts(routes, 1);
  const std::vector<int>& sizes = arrangement.sizes;
  if (std::count(sizes.begin(), sizes.end(), sizes[0]) == static_cast<std::ptrdiff_t>(routes))
    TakeMany(arrangement, counts, left);
  while (left > 0) {
    size_t best = routes;
    double best_seconds = kInfinity;
    for (size_t r = 0; r < routes; ++r) {
      const int then = left - SequencesOf(arrangement, r);
      if (then < 0 || !adds_up[then]) continue;
      const double seconds = Bound(arrangement, r, counts[r] + 1);
      if (seconds < best_seconds) best = r, best_seconds = seconds;
    }
    if (best == routes || limits_.stopped()) return {};
    ++counts[best];
    left -= SequencesOf(arrangement, best);
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
  for (int size = 0; size < static_cast<int>(problem_.micro_batch_sizes.size()); ++size) {
    if (!tables_.Divides(size) || static_cast<int>(lists.size()) > tables_.MicroBatches(size)) continue;
    arrangement.sizes.assign(lists.size(), size);
    AddOfSizes(lists, arrangement, found);
  }
  if (lists.size() < 2 || problem_.micro_batch_sizes.size() < 2) return;
  arrangement.sizes.clear();
  AddOfSizes(lists, arrangement, of_unlike_sizes_);
}

void Search::AddOfSizes(const Lists& lists, Arrangement arrangement, std::vector<Arrangement>& found) {
  const bool pipelines = arrangement.units > static_cast<int>(lists.size());
  const std::vector<Schedule>& schedules = problem_.constraints.schedules;
  const bool has_1f1b =
      std::find(schedules.begin(), schedules.end(), Schedule::kOneForwardOneBackward) != schedules.end();
  for (const Schedule schedule : schedules) {
    arrangement.schedule = schedule;
    // Without a pipeline all schedules take the same time, and 1F1B the least memory, but for the number of
    // copies where layers live in host memory.
    const bool told_apart = pipelines || !has_1f1b || schedule == Schedule::kOneForwardOneBackward;
    if (told_apart) AddArrangement(arrangement, found);
    if (space_.saving.homes_layers) AddWithHomes(arrangement, found);
    if (!space_.saving.shards_optimizer || !CanShardOptimizer(lists)) continue;
    Arrangement sharded = arrangement;
    sharded.shards_optimizer = true;
    sharded.tied_seconds = arrangement.shared_tied_seconds;
    sharded.bounded_alone = false;
    if (told_apart) AddArrangement(sharded, found);
    if (space_.saving.homes_layers) AddWithHomes(sharded, found);
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
  if (arrangement.sizes.empty()) {
    arrangement.bound_seconds = LeastSecondsOfAnySizes(arrangement);
  } else {
    if (!WorthBounding(arrangement)) return;
    arrangement.bound_seconds = LeastSeconds(arrangement);
  }
  if (arrangement.bound_seconds < Below(arrangement.units)) found.push_back(std::move(arrangement));
}

}  // namespace medley
