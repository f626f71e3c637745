#include "coordinator/predictor/group_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "coordinator/predictor/hosts_that_count.h"
#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/collective/choose_all_reduce.h"
#include "runtime/ir/collective/hierarchical_schedule.h"
#include "runtime/ir/link/all_reduce_times.h"

namespace medley {
namespace {

// What more members take is asked of few sizes, and others lie between these.
constexpr int kMostTold = 8;
constexpr double kSizesOfOctave = 2;
// Of hosts that are made up in many ways, some.
constexpr size_t kMostHosts = 8;
// Hosts may be filled in so many ways that few of so many members tell less than it takes to look at all.
constexpr int kMostWhole = 48;

SharedSlice InEvenParts(const std::vector<int>& devices, int64_t elements, int at_once) {
  return {.devices = devices,
          .shares = std::vector<double>(devices.size(), 1),
          .elements = elements,
          .at_once = at_once,
          .on_hosts = true};
}

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
    entry->second =
        algorithm ? reductions_->Choose(all_, elements, at_once_, algorithm).predicted_seconds
                  : reductions_->Seconds(reductions_->GroupOf(all_, at_once_, /*on_hosts=*/true), elements);
  }
  return entry->second;
}

double SumSample::SharedSeconds(int64_t elements, SumPart part) {
  return reductions_->SharedSeconds(InEvenParts(all_, elements, at_once_), part);
}

double SumSample::SharedRingSeconds(int64_t elements, SumPart part) {
  return reductions_->SharedRingSeconds(InEvenParts(all_, elements, at_once_), part);
}

CollectiveChoice SumSample::Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) const {
  return reductions_->Choose(all_, elements, at_once_, algorithm ? algorithm : problem_.forced_all_reduce);
}

std::vector<Boundary> SumSample::Boundaries() const { return reductions_->Boundaries(all_); }

SumSample& SumSamples::Of(const std::vector<int>& devices, int most, int at_once) {
  std::vector<int> chosen;
  const size_t count = std::min<size_t>(devices.size(), most);
  // Those of a class side by side, so that it has its part of them.
  std::vector<int> by_class = devices;
  if (count < devices.size())
    std::stable_sort(by_class.begin(), by_class.end(),
                     [&](int a, int b) { return class_of_[a] < class_of_[b]; });
  std::vector<std::pair<int, int>> made_up;
  std::map<int, int> hosts;
  for (size_t i = 0; i < count; ++i) {
    const int device = by_class[i * by_class.size() / count];
    chosen.push_back(device);
    const int number =
        hosts.try_emplace(HostOf(problem_, device), static_cast<int>(hosts.size())).first->second;
    made_up.push_back({class_of_[device], number});
  }
  std::unique_ptr<SumSample>& sample = samples_[{at_once, std::move(made_up)}];
  if (sample == nullptr) sample = std::make_unique<SumSample>(problem_, chosen, at_once);
  return *sample;
}

double GroupSums::Ring::Seconds(double elements, SumPart part) const {
  const int told = sample->members();
  const auto of_sample = [&](double count) {
    const int64_t whole = std::max<int64_t>(1, std::llround(count));
    return part == SumPart::kWhole ? sample->Seconds(whole, CollectiveAlgorithm::kRing)
                                   : sample->SharedRingSeconds(whole, part);
  };
  if (told == members) return of_sample(elements);
  // As many rounds more, with messages of the same size.
  return (members - 1.0) / (told - 1.0) * of_sample(elements * told / members);
}

GroupSums::GroupSums(SumSamples& samples, std::vector<int> devices, int most_exact, int at_once,
                     bool on_hosts)
    : samples_(samples),
      problem_(samples.problem()),
      devices_(std::move(devices)),
      most_exact_(most_exact),
      at_once_(at_once),
      by_library_(LibrarySumsOf(problem_, devices_, GroupUse::kGradients, on_hosts)),
      whole_(&samples.Of(devices_, most_exact, at_once)) {
  if (members() <= most_exact) exact_ = whole_;
  if (exact_ != nullptr) return;
  order_.resize(devices_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
    return problem_.links.EndOf(devices_[a]) < problem_.links.EndOf(devices_[b]);
  });
  FindBoundaries();
  const bool is_small = static_cast<int>(problem_.devices.size()) <= kMostSummedWhole;
  if (shows_hosts_ && (is_small || members() <= kMostWhole))
    exact_ = &samples.Of(devices_, members(), at_once);
  if (exact_ != nullptr) return;
  half_ = &samples.Of(devices_, most_exact / 2, at_once);
  ring_ = RingOver(devices_, at_once);
  if (boundaries_.empty()) return;
  nests_.push_back(NestAlong(boundaries_, shows_hosts_));
  for (size_t b = 0; boundaries_.size() > 1 && b < boundaries_.size(); ++b)
    nests_.push_back(NestAlong({boundaries_[b]}, shows_hosts_ && b == 0));
}

GroupSums::Ring GroupSums::RingOver(const std::vector<int>& devices, int at_once) const {
  return {&samples_.Of(devices, most_exact_, at_once), static_cast<int>(devices.size())};
}

void GroupSums::FindBoundaries() {
  // Numbers parts in the order of their first members; one of all members or of each alone is none. Later ones are of whole parts
  // of those before.
  const auto add = [&](const std::vector<int>& part_of) {
    std::map<int, int> numbers;
    for (const int place : order_) numbers.try_emplace(part_of[place], static_cast<int>(numbers.size()));
    Boundary boundary;
    for (const int part : part_of) boundary.push_back(numbers.at(part));
    if (numbers.size() < 2 || numbers.size() == part_of.size()) return false;
    std::map<int, int> outer;  // by the part of the one before
    for (size_t i = 0; !boundaries_.empty() && i < boundary.size(); ++i) {
      if (outer.try_emplace(boundaries_.back()[i], boundary[i]).first->second != boundary[i]) return false;
    }
    boundaries_.push_back(std::move(boundary));
    return true;
  };
  std::vector<int> part_of = HostsThatCount(problem_, devices_);
  shows_hosts_ = add(part_of);
  if (shows_hosts_) {
    const std::map<int, std::vector<int>> by_host = DevicesByHost(problem_, devices_);
    ways_out_ = std::numeric_limits<double>::infinity();
    for (const auto& [host, devices] : by_host) {
      const double cards = std::max(1, problem_.devices[devices.front()].network_cards),
                   ways = cards / at_once_, members = static_cast<double>(devices.size());
      ways_out_ = std::min({ways_out_, ways, members});
    }
  }
  for (const Boundary& of_sample : whole_->Boundaries()) {
    std::map<int, std::set<int>> parts_of_end;
    for (size_t i = 0; i < of_sample.size(); ++i)
      parts_of_end[problem_.links.EndOf(whole_->devices()[i])].insert(of_sample[i]);
    part_of.clear();
    for (const int d : devices_) {
      const auto parts = parts_of_end.find(problem_.links.EndOf(d));
      if (parts != parts_of_end.end() && parts->second.size() == 1) part_of.push_back(*parts->second.begin());
    }
    if (part_of.size() == devices_.size() && add(part_of)) shares_outer_ways_ = true;
  }
  // Where cards are known, hosts have them for themselves, and racks and sites alone share a way.
  const auto is_of_first_rack = [&](int d) {
    const DeviceCost &device = problem_.devices[d], &first = problem_.devices[devices_.front()];
    return device.site == first.site && device.rack == first.rack;
  };
  if (problem_.devices[devices_.front()].network_cards > 0)
    shares_outer_ways_ = !std::all_of(devices_.begin(), devices_.end(), is_of_first_rack);
}

GroupSums::Nest GroupSums::NestAlong(std::vector<Boundary> boundaries, bool from_hosts) const {
  Nest nest{std::move(boundaries), {}};
  std::vector<size_t> firsts(devices_.size());  // of the parts so far, places in devices_
  std::iota(firsts.begin(), firsts.end(), 0);
  double ways = 1;
  for (size_t b = 0; b < nest.boundaries.size(); ++b) {
    std::map<int, std::vector<size_t>> parts;
    for (const size_t first : firsts) parts[nest.boundaries[b][first]].push_back(first);
    Level& level = nest.levels.emplace_back();
    level.ways = ways;
    std::set<std::vector<int>> known;
    firsts.clear();
    for (const auto& [part, members] : parts) {
      firsts.push_back(members.front());
      std::vector<int> devices, make_up;
      for (const size_t member : members) {
        devices.push_back(devices_[member]);
        make_up.push_back(problem_.links.EndOf(devices.back()));
      }
      if (devices.size() < 2 || known.size() == kMostHosts || !known.insert(std::move(make_up)).second)
        continue;
      level.rings.push_back(RingOver(devices, /*at_once=*/1));
    }
    const bool goes_further = shares_outer_ways_ && nest.boundaries.size() < boundaries_.size();
    ways = from_hosts && b == 0 ? ways_out_ : 1;
    if (goes_further || (shares_outer_ways_ && b + 1 == nest.boundaries.size()))
      ways = std::min(ways, 1.0 / at_once_);
  }
  std::vector<int> devices;
  for (const size_t first : firsts) devices.push_back(devices_[first]);
  nest.levels.push_back({{RingOver(devices, /*at_once=*/1)}, ways});
  return nest;
}

double GroupSums::Seconds(int64_t elements, SumPart part) {
  if (devices_.size() < 2 || elements == 0) return 0;
  if (members() <= kMostTold) return SecondsOf(elements, part);
  const double step = std::floor(kSizesOfOctave * std::log2(static_cast<double>(elements)));
  const auto size = [](double at) { return static_cast<int64_t>(std::exp2(at / kSizesOfOctave)); };
  const int64_t below = size(step), above = std::max(below + 1, size(step + 1));
  if (elements == below) return SecondsOf(below, part);
  const double above_part = static_cast<double>(elements - below) / static_cast<double>(above - below);
  return SecondsOf(below, part) + above_part * (SecondsOf(above, part) - SecondsOf(below, part));
}

double GroupSums::SecondsOf(int64_t elements, SumPart part) {
  if (devices_.size() < 2 || elements == 0) return 0;
  if (by_library_ != nullptr) {
    return (part == SumPart::kWhole ? 1 : 0.5) *
           MeasuredSumSeconds(*by_library_, members(),
                              problem_.wire_bytes_per_element * static_cast<double>(elements));
  }
  const auto [entry, inserted] = seconds_.try_emplace({elements, part}, 0);
  if (!inserted) return entry->second;
  if (part == SumPart::kWhole) {
    entry->second = FastestWay(elements, problem_.forced_all_reduce).seconds;
  } else if (exact_ != nullptr) {
    entry->second = exact_->SharedSeconds(elements, part);
  } else {
    entry->second = SharesByHalves(elements) ? HalvedSeconds(elements, part) : RingSecondsOf(elements, part);
  }
  return entry->second;
}

double GroupSums::HalvedSeconds(int64_t elements, SumPart part) {
  std::unique_ptr<HalvingRounds>& rounds = part == SumPart::kWhole ? whole_rounds_ : shared_rounds_;
  if (rounds == nullptr) {
    std::vector<int> order(devices_.size());
    std::iota(order.begin(), order.end(), 0);
    if (part == SumPart::kWhole) order = ShapeAlong(boundaries_, order_).order;
    std::vector<int> devices;
    std::vector<Boundary> boundaries(boundaries_.size());
    for (const int place : order) {
      devices.push_back(devices_[place]);
      for (size_t b = 0; b < boundaries.size(); ++b) boundaries[b].push_back(boundaries_[b][place]);
    }
    rounds = std::make_unique<HalvingRounds>(problem_, devices, boundaries, at_once_);
  }
  return rounds->Seconds(elements, part);
}

bool GroupSums::SharesByHalves(int64_t elements) {
  const std::optional<CollectiveAlgorithm>& forced = problem_.forced_all_reduce;
  if (members() < 3 || (forced && forced != CollectiveAlgorithm::kHalvingDoubling)) return false;
  if (forced) return true;
  double ring_seconds = 0, halved_seconds = 0;
  for (const SumPart part : {SumPart::kScattered, SumPart::kGathered}) {
    ring_seconds += RingSecondsOf(elements, part);
    halved_seconds += HalvedSeconds(elements, part);
  }
  return halved_seconds < ring_seconds;
}

GroupSums::Way GroupSums::FastestWay(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  if (exact_ != nullptr)
    return {algorithm.value_or(CollectiveAlgorithm::kRing), nullptr, exact_->Seconds(elements, algorithm)};
  Way fastest{algorithm.value_or(CollectiveAlgorithm::kRing), nullptr,
              std::numeric_limits<double>::infinity()};
  const auto consider = [&](const Way& way) {
    if (way.seconds < fastest.seconds) fastest = way;
  };
  const auto wanted = [&](CollectiveAlgorithm one) { return !algorithm || *algorithm == one; };
  // How often a tree crosses a shared way, few do not tell, but of a power of two.
  const bool is_power_of_two = (devices_.size() & (devices_.size() - 1)) == 0;
  // Without boundaries a hierarchy is a ring.
  if (wanted(CollectiveAlgorithm::kRing) || (wanted(CollectiveAlgorithm::kHierarchical) && nests_.empty()))
    consider({fastest.algorithm, nullptr, ring_.Seconds(static_cast<double>(elements))});
  if (wanted(CollectiveAlgorithm::kTree) && (algorithm.has_value() || !shares_outer_ways_ || is_power_of_two))
    consider({CollectiveAlgorithm::kTree, nullptr, TreeSeconds(elements)});
  if (wanted(CollectiveAlgorithm::kHierarchical)) {
    for (const Nest& nest : nests_)
      consider({CollectiveAlgorithm::kHierarchical, &nest, NestSeconds(nest, elements)});
  }
  if (wanted(CollectiveAlgorithm::kHalvingDoubling))
    consider({CollectiveAlgorithm::kHalvingDoubling, nullptr, HalvedSeconds(elements, SumPart::kWhole)});
  return fastest;
}

// Rounds grow with the logarithm of the members.
double GroupSums::TreeSeconds(int64_t elements) {
  const double whole = whole_->members(), half = half_->members();
  const double of_whole = whole_->Seconds(elements, CollectiveAlgorithm::kTree),
               of_half = half_->Seconds(elements, CollectiveAlgorithm::kTree);
  return of_whole +
         std::max(0.0, of_whole - of_half) * std::log2(members() / whole) / std::log2(whole / half);
}

// While a piece is in one level's rings others are in those of the others.
double GroupSums::NestSeconds(const Nest& nest, int64_t elements) const {
  const double pieces =
      std::clamp(static_cast<double>(elements) / (static_cast<double>(kSmallestPieceElements) * members()),
                 1.0, double{kHierarchicalPieces});
  double longest = 0, sum = 0;
  for (const Level& level : nest.levels) {
    double seconds = 0;
    for (const Ring& ring : level.rings)
      seconds = std::max(seconds, ring.Seconds(static_cast<double>(elements) / level.ways));
    longest = std::max(longest, seconds);
    sum += seconds;
  }
  const double seconds = longest + (sum - longest) / pieces;
  if (!shares_outer_ways_) return seconds;
  // What crosses a way in turns holds up the rest, as between a few.
  return std::max(seconds, whole_->Seconds(elements, CollectiveAlgorithm::kHierarchical));
}

CollectiveChoice GroupSums::Choose(int64_t elements, std::optional<CollectiveAlgorithm> algorithm) {
  if (exact_ != nullptr) return exact_->Choose(elements, algorithm);
  const Way way = FastestWay(elements, algorithm ? algorithm : problem_.forced_all_reduce);
  // A ring, too, keeps to hosts.
  CollectiveChoice choice{way.algorithm,
                          ShapeAlong(way.nest != nullptr ? way.nest->boundaries : boundaries_, order_),
                          way.seconds};
  if (way.nest == nullptr) choice.shape.levels.clear();
  return choice;
}

}  // namespace medley
