#include "coordinator/predictor/group_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "coordinator/predictor/reductions.h"
#include "runtime/ir/collective/choose_all_reduce.h"
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
    : problem_(OnDevices(problem, devices)),
      devices_(devices),
      reductions_(std::make_unique<Reductions>(problem_)),
      all_(devices.size()),
      at_once_(at_once) {
  std::iota(all_.begin(), all_.end(), 0);
}

SumSample::~SumSample() = default;

double SumSample::Seconds(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  const auto [entry, inserted] = seconds_.try_emplace({elements, algorithm}, 0);
  if (inserted) {
    entry->second = algorithm ? reductions_->Choose(all_, elements, at_once_, algorithm).predicted_seconds
                              : reductions_->Seconds(reductions_->GroupOf(all_, at_once_), elements);
  }
  return entry->second;
}

bool SumSample::is_flat() { return reductions_->WaysIn(reductions_->GroupOf(all_, at_once_)) == members(); }

std::vector<Boundary> SumSample::Boundaries() const { return reductions_->Boundaries(all_); }

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
  if (inserted) entry->second = FastestWay(elements, problem_.forced_all_reduce).seconds;
  return entry->second;
}

GroupSums::Way GroupSums::FastestWay(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  Way fastest{algorithm.value_or(CollectiveAlgorithm::kRing), false, std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Way& way) {
    if (way.seconds < fastest.seconds) fastest = way;
  };
  if (half_ == nullptr) {
    fastest.seconds = whole_->Seconds(elements, algorithm);
  } else {
    for (const CollectiveAlgorithm one : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kHalvingDoubling,
                                          CollectiveAlgorithm::kTree, CollectiveAlgorithm::kHierarchical}) {
      if (algorithm && one != *algorithm) continue;
      // Without boundaries a hierarchy is a ring.
      if (!algorithm && one == CollectiveAlgorithm::kHierarchical && whole_->is_flat()) continue;
      consider({one, false, Extrapolated(elements, one)});
    }
  }
  if (across_ && algorithm.value_or(CollectiveAlgorithm::kHierarchical) == CollectiveAlgorithm::kHierarchical)
    consider({CollectiveAlgorithm::kHierarchical, true, AcrossHosts(elements)});
  return fastest;
}

double GroupSums::AcrossHosts(int64_t elements) {
  double inside = 0;
  for (SumSample* host : hosts_)
    inside = std::max(inside, host->Seconds(elements, CollectiveAlgorithm::kRing));
  const double of_member = static_cast<double>(elements) / members_of_host_;
  const double across =
      across_->InRings(std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(elements) / ways_out_)));
  // While a piece is on its way across others are summed and gathered inside.
  const double pieces =
      std::clamp(of_member / static_cast<double>(kSmallestPieceElements), 1.0, double{kHierarchicalPieces});
  return std::max(inside, across) + std::min(inside, across) / pieces;
}

double GroupSums::InRings(int64_t elements) {
  const double one = FastestWay(elements, CollectiveAlgorithm::kRing).seconds;
  return whole_->is_flat() ? one
                           : std::min(one, FastestWay(elements, CollectiveAlgorithm::kHierarchical).seconds);
}

double GroupSums::Extrapolated(int64_t elements, CollectiveAlgorithm algorithm) const {
  const double members = static_cast<double>(devices_.size()), whole = whole_->members(),
               half = half_->members();
  const double of_whole = whole_->Seconds(elements, algorithm), of_half = half_->Seconds(elements, algorithm);
  // Rounds of a ring grow with its members, those of the others with their logarithm.
  const double more = algorithm == CollectiveAlgorithm::kRing
                          ? (members - whole) / (whole - half)
                          : std::log2(members / whole) / std::log2(whole / half);
  return of_whole + std::max(0.0, of_whole - of_half) * more;
}

std::vector<Boundary> GroupSums::BoundariesOfAll(bool of_hosts) const {
  std::vector<Boundary> boundaries;
  // Numbers parts in the order of their first members; one of all members or of each alone is none. Later ones are of whole parts
  // of those before.
  const auto add = [&](const std::vector<int>& part_of) {
    std::map<int, int> numbers;
    Boundary boundary;
    for (const int part : part_of)
      boundary.push_back(numbers.try_emplace(part, static_cast<int>(numbers.size())).first->second);
    if (numbers.size() < 2 || numbers.size() == part_of.size()) return;
    std::map<int, int> outer;  // by the part of the one before
    for (size_t i = 0; !boundaries.empty() && i < boundary.size(); ++i) {
      if (outer.try_emplace(boundaries.back()[i], boundary[i]).first->second != boundary[i]) return;
    }
    boundaries.push_back(std::move(boundary));
  };
  std::vector<int> part_of;
  for (const int d : devices_) part_of.push_back(HostOf(problem_, d));
  if (of_hosts) add(part_of);
  for (const Boundary& of_sample : whole_->Boundaries()) {
    std::map<int, int> part_of_end;  // -1: it has devices in several, or none that is known
    for (const int d : devices_) part_of_end[problem_.links.EndOf(d)] = -1;
    std::map<int, std::set<int>> parts_of_end;
    for (size_t i = 0; i < of_sample.size(); ++i)
      parts_of_end[problem_.links.EndOf(whole_->devices()[i])].insert(of_sample[i]);
    for (const auto& [end, parts] : parts_of_end) {
      if (parts.size() == 1) part_of_end[end] = *parts.begin();
    }
    part_of.clear();
    for (const int d : devices_) part_of.push_back(part_of_end[problem_.links.EndOf(d)]);
    if (std::find(part_of.begin(), part_of.end(), -1) == part_of.end()) add(part_of);
  }
  return boundaries;
}

CollectiveChoice GroupSums::Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  const Way way = FastestWay(elements, algorithm ? algorithm : problem_.forced_all_reduce);
  std::vector<int> all(devices_.size());
  std::iota(all.begin(), all.end(), 0);
  // A ring, too, keeps to hosts.
  const bool of_hosts = way.by_hosts || way.algorithm != CollectiveAlgorithm::kHierarchical;
  CollectiveChoice choice{way.algorithm, ShapeAlong(BoundariesOfAll(of_hosts), all), way.seconds};
  if (way.algorithm != CollectiveAlgorithm::kHierarchical) choice.shape.levels.clear();
  return choice;
}

}  // namespace medley
