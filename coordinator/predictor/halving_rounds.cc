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

// What messages of a round share, as MessageClock has it: of each level, the part that a member is in, and how many messages leave it
// and come to it at once. Between two whose hosts' cards are known these are cards, and the ways of racks and sites; between others the way of the
// outermost boundary between them.
class HalvingRounds::Ways {
 public:
  Ways(const PlanningProblem& problem, const std::vector<int>& devices,
       const std::vector<Boundary>& boundaries, int at_once) {
    Level& hosts = network_.emplace_back();
    for (const int d : devices) {
      const int cards = problem.devices[d].network_cards;
      has_cards_.push_back(cards > 0);
      Add(hosts, HostOf(problem, d), std::max(1.0, 1.0 * cards) / at_once);
    }
    const std::vector<ByLevel<int>> places = PlacesOf(problem);
    for (const WayLevel level : {WayLevel::kRack, WayLevel::kSite}) {
      if (places.empty() || places.front()[level] < 0) continue;
      Level& of_places = network_.emplace_back();
      for (const int d : devices) Add(of_places, places[d][level], 1.0 / at_once);
    }
    for (const Boundary& boundary : boundaries) {
      Level& of_boundary = boundaries_.emplace_back();
      for (const int part : boundary) Add(of_boundary, part, 1);
    }
  }

  // Whether two reach each other by what they have for those around them, whom nothing sets apart.
  bool AreTogether(int a, int b) const {
    const std::vector<Level>& levels = LevelsOf(a, b);
    return levels.empty() || levels.front().part_of[a] == levels.front().part_of[b];
  }
  void Count(int from, int to) {
    ForEach(from, to, [](Level& level, int out, int in) {
      level.out[out] += 1;
      level.in[in] += 1;
    });
  }
  double SlowdownOf(int from, int to) {
    double slowdown = 1;
    ForEach(from, to, [&](const Level& level, int out, int in) {
      slowdown = std::max({slowdown, level.out[out] / level.ways[out], level.in[in] / level.ways[in]});
    });
    return slowdown;
  }
  void Forget() {
    for (std::vector<Level>* levels : {&network_, &boundaries_}) {
      for (Level& level : *levels) {
        level.out.assign(level.ways.size(), 0);
        level.in.assign(level.ways.size(), 0);
      }
    }
  }

 private:
  struct Level {
    std::vector<int> part_of;     // of each member
    std::vector<double> ways;     // of each part
    std::vector<double> out, in;  // of each part, messages
    std::map<int, int> numbers;   // of parts
  };
  static void Add(Level& level, int part, double ways) {
    const auto [entry, is_new] = level.numbers.try_emplace(part, static_cast<int>(level.ways.size()));
    if (is_new) level.ways.push_back(ways);
    level.part_of.push_back(entry->second);
  }
  bool HaveCards(int a, int b) const { return has_cards_[a] && has_cards_[b]; }
  const std::vector<Level>& LevelsOf(int a, int b) const { return HaveCards(a, b) ? network_ : boundaries_; }

  template <typename Visit>
  void ForEach(int from, int to, const Visit& visit) {
    const bool have_cards = HaveCards(from, to);
    if (have_cards && AreTogether(from, to)) return;
    std::vector<Level>& levels = have_cards ? network_ : boundaries_;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      if (level->part_of[from] == level->part_of[to]) continue;
      visit(*level, level->part_of[from], level->part_of[to]);
      if (!have_cards) return;
    }
  }

  std::vector<bool> has_cards_;              // of each member
  std::vector<Level> network_, boundaries_;  // innermost first
};

HalvingRounds::HalvingRounds(const PlanningProblem& problem, const std::vector<int>& devices,
                             const std::vector<Boundary>& boundaries, int at_once)
    : wire_bytes_per_element_(problem.wire_bytes_per_element),
      own_part_(1.0 / static_cast<double>(devices.size())) {
  const std::vector<HalvingLeaf> leaves = LeavesOf(static_cast<int>(devices.size()));
  Ways ways(problem, devices, boundaries, at_once);
  const auto add = [&](Round& round, const std::vector<std::pair<int, int>>& messages) {
    ways.Forget();
    for (const auto& [from, to] : messages) ways.Count(from, to);
    for (const auto& [from, to] : messages) {
      const Pair pair{&problem.links.Between(devices[from], devices[to]), ways.AreTogether(from, to),
                      ways.SlowdownOf(from, to)};
      if (std::find(round.pairs.begin(), round.pairs.end(), pair) == round.pairs.end())
        round.pairs.push_back(pair);
    }
  };
  std::vector<std::pair<int, int>> messages;
  for (const HalvingLeaf& leaf : leaves) {
    if (leaf.extra >= 0) messages.push_back({leaf.extra, leaf.member});
  }
  add(folding_, messages);
  const int count = static_cast<int>(leaves.size());
  for (int half = count / 2; half >= 1; half /= 2) {
    messages.clear();
    for (int leaf = 0; leaf < count; ++leaf)
      messages.push_back({leaves[leaf].member, leaves[leaf ^ half].member});
    Round& round = halving_.emplace_back();
    round.part = static_cast<double>(half) / count;
    add(round, messages);
  }
}

// Of all members at once, each of which has a way to others around it and one to what is further, as MessageClock has them.
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
                   start_seconds = std::max(first_seconds_, free_seconds_[pair.together ? 1 : 0]);
      double& free = free_seconds[pair.together ? 1 : 0];
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
