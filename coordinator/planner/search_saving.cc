#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/planner/search.h"
#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/block_sizes.h"

// Plans whose units share the optimizer's state, or have layers in host memory: how they save memory is no matter of
// each unit alone.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;
// Ways to save that are looked at for one choice of splits: all of six units that recompute, or of three whose layers may live on hosts.
constexpr size_t kMostWays = 729;
// Instructions of a micro-batch's passes and messages at a unit, about: what knowing the unit's memory costs.
constexpr int64_t kPassInstructions = 6;
// What preparing to look for weights costs, and looking for one way to recompute, in simulated instructions a
// unit.
constexpr int64_t kWeightsInstructions = 40, kFitInstructions = 2;

struct WaysToSave {
  std::vector<std::vector<UnitSaving>> ways;  // parallel to the units
  bool all = true;
};

// Every combination of what units may do. Where there are too many, the first of all, the second, and so on.
WaysToSave FindWays(const std::vector<std::vector<UnitSaving>>& of_units) {
  WaysToSave found;
  size_t count = 1, most = 1;
  for (const std::vector<UnitSaving>& savings : of_units) {
    most = std::max(most, savings.size());
    if (count <= kMostWays) count *= savings.size();
  }
  if (count > kMostWays) {
    found.all = false;
    for (size_t i = 0; i < most; ++i) {
      std::vector<UnitSaving>& way = found.ways.emplace_back();
      for (const std::vector<UnitSaving>& savings : of_units)
        way.push_back(savings[std::min(i, savings.size() - 1)]);
    }
    return found;
  }
  found.ways.emplace_back();
  for (const std::vector<UnitSaving>& savings : of_units) {
    std::vector<std::vector<UnitSaving>> longer;
    for (const std::vector<UnitSaving>& way : found.ways) {
      for (const UnitSaving& saving : savings) {
        longer.push_back(way);
        longer.back().push_back(saving);
      }
    }
    found.ways = std::move(longer);
  }
  return found;
}

}  // namespace

double Search::BoundOfSavings(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                              const std::vector<int>& order, const std::vector<UnitSaving>& savings) const {
  double bound = 0;
  auto next = savings.begin();
  for (const int r : order) {
    const auto end = next + static_cast<std::ptrdiff_t>(choice[r].ends.size());
    bound = std::max(bound, bounds_.BoundOfSplit(WorkOf(arrangement, r, choice[r].micro_batches),
                                                 choice[r].ends, {next, end}));
    next = end;
  }
  return bound + arrangement.fixed_seconds();
}

bool Search::FitsAsItIs(const Arrangement& arrangement, const std::vector<RouteChoice>& choice) {
  for (size_t r = 0; r < choice.size(); ++r) {
    if (!bounds_.FitsAsItIs(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends)) return false;
  }
  return true;
}

bool Search::FitHosts(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                      const std::vector<int>& order, const std::vector<UnitSaving>& savings) const {
  std::map<int, Bytes> needed;
  auto saving = savings.begin();
  for (const int r : order) {
    for (size_t s = 0; s < choice[r].ends.size(); ++s, ++saving) {
      const DeviceCost& device = problem_.devices[arrangement.devices[r][s]];
      if (saving->window_layers == 0 || device.host < 0 || device.host_memory == Bytes{0}) continue;
      const int device_class = bounds_.ClassesOf(arrangement.lists[r])[s];
      Bytes& on_host = needed[device.host];
      on_host += tables_.HomeBytesOf(device_class, choice[r].blocks(s));
      if (on_host > device.host_memory) return false;
    }
  }
  return true;
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
  const RouteBounds::Work work = WorkOf(arrangement, route, choice.micro_batches);
  const auto rooms = bounds_.RoomsOf(work, choice.ends);
  const auto savings = bounds_.SavingsOf(work, choice.ends);
  double room = 0;
  for (size_t s = 0; s < stages; ++s) {
    if (!replicated && s > 0 && s + 1 < stages) continue;
    const BlockRange blocks = choice.blocks(s);
    const int64_t held = replicated ? tables_.Parameters(blocks) : tables_.TiedParameters();
    // Only what has a layer has other rooms than that with nothing recomputed.
    int64_t most = rooms[s][static_cast<int>(Recompute::kNone)];
    if (HaveLayer(problem_.shape.model, {blocks})) most = *std::max_element(rooms[s].begin(), rooms[s].end());
    const bool has_windows = std::any_of(savings[s].begin(), savings[s].end(),
                                         [](const UnitSaving& saving) { return saving.window_layers > 0; });
    if (has_windows) {  // all of its state fits
      room += static_cast<double>(held);
      continue;
    }
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

void Search::TellRooms(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                       const std::vector<int>& order, OptimizerSharding& sharding) {
  int rank = 0;
  for (const int r : order) {
    const RouteBounds::Work work = WorkOf(arrangement, r, choice[r].micro_batches);
    if (!KnowsRooms(arrangement)) {
      evaluated_ += kPassInstructions * work.micro_batches * static_cast<int64_t>(choice[r].ends.size());
      continue;
    }
    for (const auto& rooms : bounds_.RoomsOf(work, choice[r].ends)) {
      for (const Recompute recompute : kRecomputesByTime)
        sharding.KnowRoom(rank, recompute, rooms[static_cast<int>(recompute)]);
      ++rank;
    }
  }
}

double Search::SimulateSaving(const Arrangement& arrangement, const std::vector<RouteChoice>& choice,
                              const std::vector<int>& order) {
  std::vector<std::vector<UnitSaving>> of_units;
  std::vector<UnitSaving> least;  // that a unit computes
  for (const int r : order) {
    const std::vector<int>& classes = bounds_.ClassesOf(arrangement.lists[r]);
    size_t stage = 0;
    for (std::vector<UnitSaving>& savings :
         bounds_.SavingsOf(WorkOf(arrangement, r, choice[r].micro_batches), choice[r].ends)) {
      if (savings.empty()) return kInfinity;
      const BlockRange blocks = choice[r].blocks(stage);
      const auto seconds = [&](const UnitSaving& saving) {
        return tables_.RecomputeSeconds(classes[stage], arrangement.sizes[r], blocks, saving);
      };
      least.push_back(*std::min_element(
          savings.begin(), savings.end(),
          [&](const UnitSaving& a, const UnitSaving& b) { return seconds(a) < seconds(b); }));
      ++stage;
      of_units.push_back(std::move(savings));
    }
  }
  const int64_t units = static_cast<int64_t>(of_units.size());
  if (BoundOfSavings(arrangement, choice, order, least) >= Below(arrangement.units)) return kInfinity;
  if (KnowsRooms(arrangement) && !HaveRoomTogether(arrangement, choice)) return kInfinity;
  const Plan plan = PlanOf(arrangement, choice, order);
  std::optional<OptimizerSharding> sharding;
  if (arrangement.shards_optimizer) {
    sharding.emplace(simulated_, plan);
    evaluated_ += kWeightsInstructions * units;
    if (!sharding->CanShard()) return kInfinity;
    TellRooms(arrangement, choice, order, *sharding);
  }
  const auto& [ways, all] = FindWays(of_units);
  passed_over_ = passed_over_ || !all;
  std::vector<std::pair<double, size_t>> by_bound;
  for (size_t w = 0; w < ways.size(); ++w) {
    const bool has_windows = std::any_of(ways[w].begin(), ways[w].end(),
                                         [](const UnitSaving& saving) { return saving.window_layers > 0; });
    // Those without are another arrangement's.
    if (has_windows != arrangement.homes_layers || !FitHosts(arrangement, choice, order, ways[w])) continue;
    by_bound.push_back({BoundOfSavings(arrangement, choice, order, ways[w]), w});
  }
  std::sort(by_bound.begin(), by_bound.end());
  double best = kInfinity;
  for (const auto& [bound, way] : by_bound) {
    if (bound >= Below(arrangement.units) || OutOfBudget()) break;
    evaluated_ += kFitInstructions * units;
    std::optional<Plan> fitting;
    if (sharding) {
      fitting = sharding->Fit(ways[way]);
      const auto recomputes = [](const UnitSaving& saving) { return saving.recompute != Recompute::kNone; };
      if (fitting && std::any_of(ways[way].begin(), ways[way].end(), recomputes)) {
        for (const Route& route : fitting->routes)
          evaluated_ += kPassInstructions * route.micro_batches * static_cast<int64_t>(route.units.size());
        fitting = WithFewestRecomputed(simulated_, *std::move(fitting));
      }
    } else {
      fitting = plan;
      for (size_t u = 0; u < ways[way].size(); ++u) {
        fitting->units[u].recompute = ways[way][u].recompute;
        fitting->units[u].recomputed_layers = ways[way][u].recomputed_layers;
        fitting->units[u].window_layers = ways[way][u].window_layers;
      }
    }
    if (!fitting) continue;
    // All orders of the routes are one by hosts.
    if (sharding && IsFirstNumbering(arrangement, choice, order)) {
      Plan by_host = WithUnitsByHost(simulated_, *fitting);
      if (by_host != *fitting && FitsMemory(simulated_, by_host))
        best = std::min(best, Simulate(std::move(by_host), arrangement.units));
    }
    best = std::min(best, Simulate(*std::move(fitting), arrangement.units));
  }
  return best;
}

}  // namespace medley
