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

SumSample::SumSample(const PlanningProblem& problem, const std::vector<int>& devices, int at_once)
    : problem_(OnDevices(problem, devices)), reductions_(problem_), all_(devices.size()), at_once_(at_once) {
  std::iota(all_.begin(), all_.end(), 0);
}

double SumSample::Seconds(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  const auto [entry, inserted] = seconds_.try_emplace({elements, algorithm}, 0);
  if (inserted) {
    entry->second = algorithm ? reductions_.Choose(all_, elements, at_once_, algorithm).predicted_seconds
                              : reductions_.Seconds(reductions_.GroupOf(all_, at_once_), elements);
  }
  return entry->second;
}

bool SumSample::is_flat() { return reductions_.WaysIn(reductions_.GroupOf(all_, at_once_)) == members(); }

SumSample& SumSamples::Of(const std::vector<int>& devices, int most, int at_once) {
  std::vector<int> chosen;
  const size_t count = std::min<size_t>(devices.size(), most);
  std::vector<std::pair<int, int>> made_up;
  std::map<int, int> hosts;
  for (size_t i = 0; i < count; ++i) {
    const int device = devices[i * devices.size() / count];
    chosen.push_back(device);
    const int number =
        hosts.try_emplace(HostOf(problem_, device), static_cast<int>(hosts.size())).first->second;
    made_up.push_back({class_of_[device], number});
  }
  std::unique_ptr<SumSample>& sample = samples_[{at_once, std::move(made_up)}];
  if (sample == nullptr) sample = std::make_unique<SumSample>(problem_, chosen, at_once);
  return *sample;
}

GroupSums::GroupSums(SumSamples& samples, std::vector<int> devices, int most_exact, int at_once)
    : problem_(samples.problem()),
      devices_(std::move(devices)),
      whole_(&samples.Of(devices_, most_exact, at_once)) {
  if (static_cast<int>(devices_.size()) <= most_exact) return;
  half_ = &samples.Of(devices_, most_exact / 2, at_once);
  FindHosts(samples, most_exact, at_once);
}

void GroupSums::FindHosts(SumSamples& samples, int most_exact, int at_once) {
  const PlanningProblem& problem = samples.problem();
  std::map<int, std::vector<int>> by_host;
  for (const int d : devices_) by_host[HostOf(problem, d)].push_back(d);
  if (by_host.size() < 2 || by_host.size() == devices_.size()) return;
  std::vector<int> first;
  std::set<std::vector<int>> known;
  double fewest_ways = std::numeric_limits<double>::infinity();
  size_t most_members = 1;
  for (const auto& [host, devices] : by_host) {
    first.push_back(devices.front());
    const double cards = std::max(1, problem.devices[devices.front()].network_cards);
    fewest_ways = std::min({fewest_ways, cards / at_once, static_cast<double>(devices.size())});
    most_members = std::max(most_members, devices.size());
    std::vector<int> make_up;
    for (const int d : devices) make_up.push_back(problem.links.EndOf(d));
    if (devices.size() < 2 || hosts_.size() == kMostHosts || !known.insert(std::move(make_up)).second)
      continue;
    hosts_.push_back(&samples.Of(devices, most_exact, /*at_once=*/1));
  }
  members_of_host_ = static_cast<double>(most_members);
  ways_out_ = fewest_ways;
  across_ = std::make_unique<GroupSums>(samples, std::move(first), most_exact);
}

double GroupSums::Seconds(int64_t elements) {
  if (devices_.size() < 2 || elements == 0) return 0;
  if (members() <= kMostTold) return SecondsOf(elements);
  const double step = std::floor(kSizesOfOctave * std::log2(static_cast<double>(elements)));
  const auto size = [](double at) { return static_cast<int64_t>(std::exp2(at / kSizesOfOctave)); };
  const int64_t below = size(step), above = std::max(below + 1, size(step + 1));
  const double part = static_cast<double>(elements - below) / static_cast<double>(above - below);
  return SecondsOf(below) + part * (SecondsOf(above) - SecondsOf(below));
}

double GroupSums::SecondsOf(int64_t elements) {
  if (devices_.size() < 2 || elements == 0) return 0;
  const auto [entry, inserted] = seconds_.try_emplace(elements, 0);
  if (!inserted) return entry->second;
  double& seconds = entry->second;
  seconds = half_ != nullptr ? Extrapolated(elements) : whole_->Seconds(elements, std::nullopt);
  const std::optional<CollectiveAlgorithm>& forced = problem_.forced_all_reduce;
  if (across_ && forced.value_or(CollectiveAlgorithm::kHierarchical) == CollectiveAlgorithm::kHierarchical)
    seconds = std::min(seconds, Hierarchical(elements));
  return seconds;
}

double GroupSums::Hierarchical(int64_t elements) {
  double inside = 0;
  for (SumSample* host : hosts_)
    inside = std::max(inside, host->Seconds(elements, CollectiveAlgorithm::kRing));
  const double of_member = static_cast<double>(elements) / members_of_host_;
  const double across =
      across_->Seconds(std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(elements) / ways_out_)));
  // While a piece is on its way across others are summed and gathered inside.
  const double pieces =
      std::clamp(of_member / static_cast<double>(kSmallestPieceElements), 1.0, double{kHierarchicalPieces});
  return std::max(inside, across) + std::min(inside, across) / pieces;
}

double GroupSums::Extrapolated(int64_t elements) const {
  const std::optional<CollectiveAlgorithm>& forced = problem_.forced_all_reduce;
  double least = std::numeric_limits<double>::infinity();
  const double members = static_cast<double>(devices_.size()), whole = whole_->members(),
               half = half_->members();
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHierarchical}) {
    if (forced && algorithm != *forced) continue;
    // Without boundaries a hierarchy is a ring.
    if (!forced && algorithm == CollectiveAlgorithm::kHierarchical && whole_->is_flat()) continue;
    const double of_whole = whole_->Seconds(elements, algorithm),
                 of_half = half_->Seconds(elements, algorithm);
    // Rounds of a ring grow with its members, those of the others with their logarithm.
    const double more = algorithm == CollectiveAlgorithm::kRing
                            ? (members - whole) / (whole - half)
                            : std::log2(members / whole) / std::log2(whole / half);
    least = std::min(least, of_whole + std::max(0.0, of_whole - of_half) * more);
  }
  return least;
}

}  // namespace medley
