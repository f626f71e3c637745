#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/planner/search.h"
#include "runtime/ir/model/block_sizes.h"

// Plans whose units share the optimizer's state: what each has room for depends on what all recompute.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kOptimizerBytes = 2 * 4;  // m and v of an element
constexpr double kRounding = 1e-9;
// Ways to recompute that are looked at for one choice of splits: all of six units.
constexpr size_t kMostWays = 729;
// Instructions of a micro-batch's passes and messages at a unit, about: what knowing the unit's memory costs.
constexpr int64_t kPassInstructions = 6;
// What preparing to look for weights costs, and looking for one way to recompute, in simulated instructions a
// unit.
constexpr int64_t kWeightsInstructions = 40, kFitInstructions = 2;

struct WaysToRecompute {
  std::vector<std::vector<Recompute>> ways;  // parallel to the units
  bool all = true;
};

// Every way in which units that cannot recompute less than `least` can recompute. Where there are too many,
// `least` and those in which all units recompute at least so much.
WaysToRecompute FindWays(const std::vector<Recompute>& least, const std::vector<bool>& may_recompute) {
  const auto rank_of = [](Recompute recompute) {
    return std::find(std::begin(kRecomputesByTime), std::end(kRecomputesByTime), recompute) -
           std::begin(kRecomputesByTime);
  };
  WaysToRecompute found = {.ways = {least}};
  std::vector<std::vector<Recompute>>& ways = found.ways;
  size_t count = 1;
  for (size_t u = 0; u < least.size() && count <= kMostWays; ++u)
    count *= may_recompute[u] ? kRecomputes - rank_of(least[u]) : 1;
  if (count > kMostWays) {
    found.all = false;
    for (int r = 1; r < kRecomputes; ++r) {
      std::vector<Recompute> way = least;
      for (size_t u = 0; u < way.size(); ++u) {
        if (may_recompute[u] && rank_of(way[u]) < r) way[u] = kRecomputesByTime[r];
      }
      ways.push_back(std::move(way));
    }
    return found;
  }
  for (size_t u = 0; u < least.size(); ++u) {
    const size_t before = ways.size();
    for (auto r = rank_of(least[u]) + 1; may_recompute[u] && r < kRecomputes; ++r) {
      for (size_t w = 0; w < before; ++w) {
        ways.push_back(ways[w]);
        ways.back()[u] = kRecomputesByTime[r];
      }
    }
  }
  return found;
}

}  // namespace

double Search::BoundOfRecomputes(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                                 const std::vector<int>& order,
                                 const std::vector<Recompute>& recomputes) const {
  double bound = 0;
  auto next = recomputes.begin();
  for (const int r : order) {
    const auto end = next + static_cast<std::ptrdiff_t>(choice[r].ends.size());
    bound = std::max(bound, bounds_.BoundOfSplit(WorkOf(arrangement, r, choice[r].micro_batches),
                                                 choice[r].ends, {next, end}));
    next = end;
  }
  return bound + arrangement.fixed_seconds();
}

// Whether the tables say what room a unit has.
bool Search::KnowsRooms(const Arrangement& arrangement) const {
  return arrangement.shards_optimizer && space_.saving.recomputes && units_.empty();
}

// Elements whose optimizer state the units of such plans share.
double Search::SharedElements(const Arrangement& arrangement) const {
  const auto tied = static_cast<double>(tables_.TiedParameters());
  if (arrangement.lists.size() == 1) return tied;
  return tied + static_cast<double>(tables_.UntiedParameters({0, tables_.blocks()}));
}

// Those that the units of a route have room for if each recomputes what leaves it most.
double Search::RoomForShared(const Arrangement& arrangement, size_t route, const RouteChoice& choice) {
  const bool replicated = arrangement.lists.size() > 1;
  const size_t stages = choice.ends.size();
  const auto rooms = bounds_.RoomsOf(WorkOf(arrangement, route, choice.micro_batches), choice.ends);
  double room = 0;
  for (size_t s = 0; s < stages; ++s) {
    if (!replicated && s > 0 && s + 1 < stages) continue;
    const BlockRange blocks = choice.blocks(s);
    const int64_t held = replicated ? tables_.Parameters(blocks) : tables_.TiedParameters();
    // Only what has a layer has other rooms than that with nothing recomputed.
    int64_t most = rooms[s][static_cast<int>(Recompute::kNone)];
    if (HaveLayer(problem_.shape.model, {blocks})) most = *std::max_element(rooms[s].begin(), rooms[s].end());
    room += std::min(static_cast<double>(held), static_cast<double>(most) / kOptimizerBytes);
  }
  return room;
}

// Without room for all together no weights fit.
bool Search::HaveRoomTogether(const Arrangement& arrangement, const std::vector<RouteChoice>& choice) {
  double room = 0;
  for (size_t r = 0; r < choice.size(); ++r) room += RoomForShared(arrangement, r, choice[r]);
  return room >= SharedElements(arrangement) * (1 - kRounding);
}

void Search::DropSplitsWithoutRoom(const Arrangement& arrangement, const std::vector<int>& counts,
                                   std::vector<std::vector<RouteBounds::Split>>& splits) {
  std::vector<std::vector<double>> rooms(splits.size());
  double most_together = 0;
  std::vector<double> most;
  for (size_t r = 0; r < splits.size(); ++r) {
    for (const RouteBounds::Split& split : splits[r])
      rooms[r].push_back(RoomForShared(arrangement, r, {counts[r], split.ends}));
    evaluated_ += static_cast<int64_t>(splits[r].size());
    most.push_back(*std::max_element(rooms[r].begin(), rooms[r].end()));
    most_together += most.back();
  }
  const double shared = SharedElements(arrangement) * (1 - kRounding);
  for (size_t r = 0; r < splits.size(); ++r) {
    size_t next = 0;
    std::erase_if(splits[r], [&](const RouteBounds::Split&) {
      return most_together - most[r] + rooms[r][next++] < shared;
    });
  }
}

double Search::SimulateSharded(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                               const std::vector<int>& order) {
  const Plan plan = PlanOf(arrangement, choice, order);
  std::vector<Recompute> least;
  std::vector<bool> may_recompute;
  for (const Unit& unit : plan.units) {
    least.push_back(unit.recompute);
    may_recompute.push_back(space_.saving.recomputes && HaveLayer(problem_.shape.model, unit.chunks));
  }
  if (BoundOfRecomputes(arrangement, choice, order, least) >= Below(arrangement.units)) return kInfinity;
  const bool rooms_are_known = KnowsRooms(arrangement);
  if (rooms_are_known && !HaveRoomTogether(arrangement, choice)) return kInfinity;
  OptimizerSharding sharding(simulated_, plan);
  evaluated_ += kWeightsInstructions * static_cast<int64_t>(plan.units.size());
  if (!sharding.CanShard()) return kInfinity;
  int rank = 0;
  for (const int r : order) {
    const RouteBounds::Work work = WorkOf(arrangement, r, choice[r].micro_batches);
    if (!rooms_are_known) {
      evaluated_ += kPassInstructions * work.micro_batches * static_cast<int64_t>(choice[r].ends.size());
      continue;
    }
    for (const auto& rooms : bounds_.RoomsOf(work, choice[r].ends)) {
      for (const Recompute recompute : kRecomputesByTime)
        sharding.KnowRoom(rank, recompute, rooms[static_cast<int>(recompute)]);
      ++rank;
    }
  }
  const auto& [ways, all] = FindWays(least, may_recompute);
  passed_over_ = passed_over_ || !all;
  std::vector<std::pair<double, size_t>> by_bound;
  for (size_t w = 0; w < ways.size(); ++w)
    by_bound.push_back({BoundOfRecomputes(arrangement, choice, order, ways[w]), w});
  std::sort(by_bound.begin(), by_bound.end());
  double best = kInfinity;
  for (const auto& [bound, way] : by_bound) {
    if (bound >= Below(arrangement.units) || OutOfBudget()) break;
    evaluated_ += kFitInstructions * static_cast<int64_t>(plan.units.size());
    std::optional<Plan> fitting = sharding.Fit(ways[way]);
    if (fitting) best = std::min(best, Simulate(*std::move(fitting), arrangement.units));
  }
  return best;
}

}  // namespace medley
