#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/planner/search.h"

// Plans that are good before anything is proven: obvious ones, and better ones near them.
namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<int> InOrder(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

// The fastest devices, one to as many as are allowed, each with the whole model or in one pipeline; and so those of each host, and
// those that are fastest for their price, where that is limited.
std::vector<Search::Arrangement> Search::ObviousArrangements() {
  std::vector<int> order;
  for (int c = 0; c < static_cast<int>(tables_.classes().size()); ++c) {
    order.insert(order.end(), tables_.classes()[c].size(), c);
  }
  const int whole = tables_.blocks();
  const auto seconds = [&](int c) {
    return tables_.ForwardSeconds(c, 0, {0, whole}) + tables_.BackwardSeconds(c, 0, {0, whole});
  };
  const auto cost = [&](int c) { return seconds(c) * tables_.Cost(c).price_per_hour; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return seconds(a) < seconds(b); });
  std::vector<Arrangement> obvious;
  AddObvious(order, obvious);
  for (const std::vector<int>& of_host : OfHosts(order)) AddObvious(of_host, obvious);
  if (problem_.constraints.most_price_per_hour > 0) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost(a) < cost(b); });
    AddObvious(std::move(order), obvious);
  }
  SortByBound(obvious);
  of_unlike_sizes_.clear();  // all are enumerated yet
  return obvious;
}

// The classes of the devices of each host that has several, where there are others, in an order of classes that has each as often as there are
// devices of it.
std::set<std::vector<int>> Search::OfHosts(const std::vector<int>& order) const {
  std::map<int, std::vector<int>> by_host;
  std::vector<int> used(tables_.classes().size(), 0);
  for (const int c : order) {
    const int d = tables_.classes()[c][used[c]++], host = problem_.devices[d].host;
    if (host >= 0) by_host[host].push_back(c);
  }
  std::set<std::vector<int>> hosts;
  for (const auto& [host, classes] : by_host)
    if (classes.size() > 1 && classes.size() < order.size()) hosts.insert(classes);
  return hosts;
}

void Search::AddObvious(std::vector<int> order, std::vector<Arrangement>& obvious) {
  Taken taken;
  std::erase_if(order, [&](int c) {
    if (!holds_a_block_[c]) return true;
    Taken with = taken;
    if (!Take(c, with)) return true;
    taken = with;
    return false;
  });
  for (size_t count = 1; count <= order.size() && !limits_.stopped(); ++count) {
    const std::vector<int> fastest(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
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
}

void Search::TryObviousLists() {
  TryAlone();
  for (const Arrangement& arrangement : ObviousArrangements()) {
    if (OutOfBudget()) return;
    if (arrangement.bound_seconds < Below(arrangement.units)) GreedyChoice(arrangement);
  }
}

// Any one device, until one is found that everything fits on: a plan soon, however early planning is stopped, below which fewer others have
// to be bounded.
void Search::TryAlone() {
  if (space_.min_routes > 1 || space_.min_stages > 1) return;
  for (int c = 0; c < static_cast<int>(tables_.classes().size()) && best_.plan.units.empty(); ++c) {
    Taken taken;
    if (!holds_a_block_[c] || !Take(c, taken)) continue;
    std::vector<Arrangement> alone;
    AddArrangements(Lists{std::vector<int>{c}}, alone);
    SortByBound(alone);
    if (!alone.empty() && !limits_.stopped()) GreedyChoice(alone.front());
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

// Moves single blocks between neighbouring stages and as few micro-batches as can be between routes while that helps.
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
        const int sequences = std::lcm(SequencesOf(arrangement, r), SequencesOf(arrangement, to));
        const int taken = sequences / SequencesOf(arrangement, r);
        if (to == r || choice[r].micro_batches <= taken) continue;
        std::vector<RouteChoice> changed = choice;
        changed[r].micro_batches -= taken;
        changed[to].micro_batches += sequences / SequencesOf(arrangement, to);
        if (try_choice(changed)) better = true;
      }
    }
  }
}

}  // namespace medley
