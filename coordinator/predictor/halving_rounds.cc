#include "coordinator/predictor/halving_rounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "coordinator/predictor/shared_ways.h"
#include "runtime/ir/collective/chunk_size.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// What messages of a round share: of each level, the part that a member is in, and how many of its messages go at once.
class HalvingRounds::Ways {
 public:
  Ways(const PlanningProblem& problem, const std::vector<int>& devices,
       const std::vector<Boundary>& boundaries, int at_once) {
    if (problem.devices[devices.front()].network_cards <= 0) {
      takes_outermost_ = true;
      for (const Boundary& boundary : boundaries) {
        const int parts = 1 + *std::max_element(boundary.begin(), boundary.end());
        levels_.push_back({boundary, std::vector<double>(parts, 1)});
      }
      return;
    }
    Level& hosts = levels_.emplace_back();
    for (const int d : devices)
      Add(hosts, HostOf(problem, d), 1.0 * problem.devices[d].network_cards / at_once);
    const std::vector<ByLevel<int>> places = PlacesOf(problem);
    for (const WayLevel level : {WayLevel::kRack, WayLevel::kSite}) {
      if (places.empty() || places.front()[level] < 0) continue;
      Level& of_places = levels_.emplace_back();
      for (const int d : devices) Add(of_places, places[d][level], 1.0 / at_once);
    }
  }

  // By what two exchange; none within a host.
  template <typename Visit>
  void ForEach(int a, int b, const Visit& visit) {
    for (size_t level = levels_.size(); level > 0; --level) {
      Level& of = levels_[level - 1];
      if (of.part_of[a] == of.part_of[b]) continue;
      visit(of, of.part_of[a]);
      visit(of, of.part_of[b]);
      if (takes_outermost_) return;
    }
  }
  void Count(int a, int b) {
    ForEach(a, b, [](Level& level, int part) { level.wanted[part] += 1; });
  }
  double SlowdownOf(int a, int b) {
    double slowdown = 1;
    ForEach(a, b, [&](const Level& level, int part) {
      slowdown = std::max(slowdown, level.wanted[part] / level.ways[part]);
    });
    return slowdown;
  }
  void Forget() {
    for (Level& level : levels_) level.wanted.assign(level.ways.size(), 0);
  }

 private:
  struct Level {
    std::vector<int> part_of;  // of each member
    std::vector<double> ways;  // of each part
    std::vector<double> wanted = {};
    std::map<int, int> numbers = {};
  };
  static void Add(Level& level, int place, double ways) {
    const auto [entry, is_new] = level.numbers.try_emplace(place, static_cast<int>(level.ways.size()));
    if (is_new) level.ways.push_back(ways);
    level.part_of.push_back(entry->second);
  }

  bool takes_outermost_ = false;
  std::vector<Level> levels_;  // innermost first
};

HalvingRounds::HalvingRounds(const PlanningProblem& problem, const std::vector<int>& devices,
                             const std::vector<Boundary>& boundaries, int at_once)
    : wire_bytes_per_element_(problem.wire_bytes_per_element),
      own_part_(1.0 / static_cast<double>(devices.size())) {
  const std::vector<HalvingLeaf> leaves = LeavesOf(static_cast<int>(devices.size()));
  Ways ways(problem, devices, boundaries, at_once);
  const auto add = [&](Round& round, const std::vector<std::pair<int, int>>& exchanges) {
    ways.Forget();
    for (const auto& [a, b] : exchanges) ways.Count(a, b);
    for (const auto& [a, b] : exchanges) {
      const bool within_host = HostOf(problem, devices[a]) == HostOf(problem, devices[b]);
      const Pair pair{&problem.links.Between(devices[a], devices[b]), within_host, ways.SlowdownOf(a, b)};
      if (std::find(round.pairs.begin(), round.pairs.end(), pair) == round.pairs.end())
        round.pairs.push_back(pair);
    }
  };
  std::vector<std::pair<int, int>> exchanges;
  for (const HalvingLeaf& leaf : leaves) {
    if (leaf.extra >= 0) exchanges.push_back({leaf.extra, leaf.member});
  }
  add(folding_, exchanges);
  const int count = static_cast<int>(leaves.size());
  for (int half = count / 2; half >= 1; half /= 2) {
    exchanges.clear();
    for (int leaf = 0; leaf < count; ++leaf) {
      if (leaf < (leaf ^ half)) exchanges.push_back({leaves[leaf].member, leaves[leaf ^ half].member});
    }
    Round& round = halving_.emplace_back();
    round.part = static_cast<double>(half) / count;
    add(round, exchanges);
  }
}

// Of all members at once, each of which has a way to others of its host and one to other hosts, as MessageClock has them.
class HalvingRounds::Clock {
 public:
  Clock(double elements, double bytes_per_element)
      : elements_(elements), bytes_per_element_(bytes_per_element) {}

  void Run(const Round& round, double part, bool exchanged) {
    const double elements = part * elements_, bytes = elements * bytes_per_element_;
    const auto chunks = static_cast<double>(ChunksOf(std::max<int64_t>(1, std::llround(elements))));
    double first_seconds = first_seconds_, last_seconds = last_seconds_;
    std::array<double, 2> free_seconds = free_seconds_;
    for (const Pair& pair : round.pairs) {
      const LinkModel& link = exchanged ? pair.link->exchange : pair.link->transfer;
      const double whole_seconds = link.Seconds(bytes), chunk_seconds = link.Seconds(bytes / chunks),
                   occupied_seconds = whole_seconds - std::min(whole_seconds, link.LatencySeconds()),
                   start_seconds = std::max(first_seconds_, free_seconds_[pair.within_host ? 1 : 0]);
      double& free = free_seconds[pair.within_host ? 1 : 0];
      free = std::max(free, start_seconds + pair.slowdown * occupied_seconds);
      first_seconds = std::max(first_seconds, start_seconds + chunk_seconds);
      last_seconds =
          std::max({last_seconds, start_seconds + whole_seconds + (pair.slowdown - 1) * occupied_seconds,
                    last_seconds_ + chunk_seconds});
    }
    first_seconds_ = first_seconds;
    last_seconds_ = last_seconds;
    free_seconds_ = free_seconds;
  }
  double last_seconds() const { return last_seconds_; }

 private:
  const double elements_, bytes_per_element_;
  double first_seconds_ = 0,
         last_seconds_ = 0;                  // when the first chunk of what was sent last is there, and all
  std::array<double, 2> free_seconds_ = {};  // to other hosts, and to others of the own
};

double HalvingRounds::Seconds(int64_t elements, SumPart part) const {
  Clock clock(static_cast<double>(elements),
              part == SumPart::kGathered ? kGatheredBytesPerElement : wire_bytes_per_element_);
  const auto fold = [&](double folded) { clock.Run(folding_, folded, /*exchanged=*/false); };
  fold(part == SumPart::kGathered ? own_part_ : 1);
  if (part != SumPart::kGathered) {
    for (const Round& round : halving_) clock.Run(round, round.part, /*exchanged=*/true);
  }
  if (part != SumPart::kScattered) {
    for (auto round = halving_.rbegin(); round != halving_.rend(); ++round)
      clock.Run(*round, round->part, /*exchanged=*/true);
  }
  fold(part == SumPart::kScattered ? own_part_ : 1);
  return clock.last_seconds();
}

}  // namespace medley
