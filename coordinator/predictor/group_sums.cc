#include "coordinator/predictor/group_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "runtime/ir/collective/hierarchical_schedule.h"

namespace medley {
namespace {

// What more members take is asked of few sizes, and others lie between these.
constexpr int kMostTold = 8;
constexpr double kSizesOfOctave = 2;
// Of hosts that are made up in many ways, some.
constexpr size_t kMostHosts = 8;

}  // namespace

GroupSums::GroupSums(const PlanningProblem& problem, std::vector<int> devices, int most_exact)
    : devices_(std::move(devices)) {
  whole_ = SampleOf(problem, devices_, most_exact);
  if (static_cast<int>(devices_.size()) <= most_exact) return;
  half_ = SampleOf(problem, devices_, most_exact / 2);
  FindHosts(problem, most_exact);
}

void GroupSums::FindHosts(const PlanningProblem& problem, int most_exact) {
  std::map<int, std::vector<int>> by_host;
  int alone = -1;
  for (const int d : devices_) {
    const int host = problem.devices[d].host;
    by_host[host < 0 ? alone-- : host].push_back(d);
  }
  if (by_host.size() < 2 || by_host.size() == devices_.size()) return;
  std::vector<int> first;
  std::set<std::vector<int>> known;
  int fewest_ways = std::numeric_limits<int>::max();
  size_t most_members = 1;
  for (const auto& [host, devices] : by_host) {
    first.push_back(devices.front());
    const int cards = problem.devices[devices.front()].network_cards;
    fewest_ways = std::min(fewest_ways, std::clamp(cards, 1, static_cast<int>(devices.size())));
    most_members = std::max(most_members, devices.size());
    std::vector<int> make_up;
    for (const int d : devices) make_up.push_back(problem.links.EndOf(d));
    if (devices.size() < 2 || hosts_.size() == kMostHosts || !known.insert(std::move(make_up)).second)
      continue;
    hosts_.push_back(SampleOf(problem, devices, most_exact));
  }
  members_of_host_ = static_cast<double>(most_members);
  ways_out_ = fewest_ways;
  across_ = std::make_unique<GroupSums>(problem, std::move(first), most_exact);
}

std::unique_ptr<GroupSums::Sample> GroupSums::SampleOf(const PlanningProblem& problem,
                                                       const std::vector<int>& devices, int most) {
  auto sample = std::make_unique<Sample>();
  std::vector<int> chosen;
  const size_t count = std::min<size_t>(devices.size(), most);
  for (size_t i = 0; i < count; ++i) chosen.push_back(devices[i * devices.size() / count]);
  sample->problem = OnDevices(problem, chosen);
  sample->reductions = std::make_unique<Reductions>(sample->problem);
  sample->all.resize(chosen.size());
  std::iota(sample->all.begin(), sample->all.end(), 0);
  return sample;
}

double GroupSums::Seconds(int64_t elements) {
  if (devices_.size() < 2 || elements == 0) return 0;
  if (members() <= kMostTold) return At(elements);
  const double step = std::floor(kSizesOfOctave * std::log2(static_cast<double>(elements)));
  const auto size = [](double at) { return static_cast<int64_t>(std::exp2(at / kSizesOfOctave)); };
  const int64_t below = size(step), above = std::max(below + 1, size(step + 1));
  const double part = static_cast<double>(elements - below) / static_cast<double>(above - below);
  return At(below) + part * (At(above) - At(below));
}

double GroupSums::At(int64_t elements) {
  const auto [entry, inserted] = seconds_.try_emplace(elements, 0);
  if (!inserted) return entry->second;
  double& seconds = entry->second;
  seconds = half_ ? Extrapolated(elements)
                  : whole_->reductions->Seconds(whole_->reductions->GroupOf(whole_->all), elements);
  const std::optional<CollectiveAlgorithm>& forced = whole_->problem.forced_all_reduce;
  if (across_ && forced.value_or(CollectiveAlgorithm::kHierarchical) == CollectiveAlgorithm::kHierarchical)
    seconds = std::min(seconds, Hierarchical(elements));
  return seconds;
}

double GroupSums::Hierarchical(int64_t elements) {
  double inside = 0;
  for (const std::unique_ptr<Sample>& host : hosts_) {
    inside = std::max(
        inside, host->reductions->Choose(host->all, elements, CollectiveAlgorithm::kRing).predicted_seconds);
  }
  const double of_member = static_cast<double>(elements) / members_of_host_;
  const double across =
      across_->Seconds(std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(elements) / ways_out_)));
  // While a piece is on its way across others are summed and gathered inside.
  const double pieces =
      std::clamp(of_member / static_cast<double>(kSmallestPieceElements), 1.0, double{kHierarchicalPieces});
  return std::max(inside, across) + std::min(inside, across) / pieces;
}

double GroupSums::Extrapolated(int64_t elements) const {
  const std::optional<CollectiveAlgorithm>& forced = whole_->problem.forced_all_reduce;
  double least = std::numeric_limits<double>::infinity();
  const double members = static_cast<double>(devices_.size()),
               whole = static_cast<double>(whole_->all.size()), half = static_cast<double>(half_->all.size());
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHierarchical}) {
    if (forced && algorithm != *forced) continue;
    // Without boundaries a hierarchy is a ring.
    const int group = whole_->reductions->GroupOf(whole_->all);
    if (!forced && algorithm == CollectiveAlgorithm::kHierarchical &&
        whole_->reductions->WaysIn(group) == static_cast<int>(whole_->all.size()))
      continue;
    const auto seconds = [&](const Sample& sample) {
      return sample.reductions->Choose(sample.all, elements, algorithm).predicted_seconds;
    };
    const double of_whole = seconds(*whole_), of_half = seconds(*half_);
    // Rounds of a ring grow with its members, those of the others with their logarithm.
    const double more = algorithm == CollectiveAlgorithm::kRing
                            ? (members - whole) / (whole - half)
                            : std::log2(members / whole) / std::log2(whole / half);
    least = std::min(least, of_whole + std::max(0.0, of_whole - of_half) * more);
  }
  return least;
}

}  // namespace medley
