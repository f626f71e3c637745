#include "coordinator/predictor/reductions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/hosts_that_count.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/choose_all_reduce.h"
#include "runtime/ir/collective/collective_time.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"
#include "runtime/ir/link/all_reduce_times.h"
#include "runtime/ir/link/link_rise.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/program/program.h"

namespace medley {

Reductions::Reductions(const PlanningProblem& problem) : problem_(problem), samples_(problem, classes_) {
  FindHosts();
  FindClasses();
  const std::vector<ByLevel<int>> places = PlacesOf(problem);
  for (const WayLevel level : {WayLevel::kRack, WayLevel::kSite}) {
    if (places.empty() || places.front()[level] < 0) continue;
    std::vector<int>& of_level = places_.emplace_back();
    for (const ByLevel<int>& of : places) of_level.push_back(of[level]);
  }
}

void Reductions::FindHosts() {
  std::vector<int> all(problem_.devices.size());
  std::iota(all.begin(), all.end(), 0);
  hosts_ = HostsThatCount(problem_, all);
  for (const int host : hosts_) ++devices_on_[host];
}

bool Reductions::Interchangeable(int a, int b) const {
  if (hosts_[a] != hosts_[b] && (devices_on_.at(hosts_[a]) > 1 || devices_on_.at(hosts_[b]) > 1))
    return false;
  const DeviceCost &one = problem_.devices[a], &other = problem_.devices[b];
  if (one.network_cards != other.network_cards || one.site != other.site || one.rack != other.rack)
    return false;
  if (one.has_own_memory != other.has_own_memory || one.group_library != other.group_library) return false;
  if (one.has_own_memory && (one.fetch_bytes_per_second != other.fetch_bytes_per_second ||
                             one.store_bytes_per_second != other.store_bytes_per_second))
    return false;
  return problem_.links.Interchangeable(a, b);
}

void Reductions::FindClasses() {
  std::vector<int> first_of_class;
  for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) {
    size_t number = 0;
    while (number < first_of_class.size() && !Interchangeable(first_of_class[number], d)) ++number;
    if (number == first_of_class.size()) first_of_class.push_back(d);
    classes_.push_back(static_cast<int>(number));
  }
}

// Sets with as many devices of each class have the same links in this order.
std::vector<int> Reductions::Canonical(const std::vector<int>& devices) const {
  std::vector<int> sorted = devices;
  std::sort(sorted.begin(), sorted.end(),
            [&](int a, int b) { return classes_[a] != classes_[b] ? classes_[a] < classes_[b] : a < b; });
  return sorted;
}

SharedSlice Reductions::Canonical(const SharedSlice& slice) const {
  std::vector<size_t> places(slice.devices.size());
  std::iota(places.begin(), places.end(), 0);
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    const auto rank = [&](size_t place) {
      return std::tuple(classes_[slice.devices[place]], slice.shares[place], slice.devices[place]);
    };
    return rank(a) < rank(b);
  });
  SharedSlice canonical = slice;
  for (size_t i = 0; i < places.size(); ++i) {
    canonical.devices[i] = slice.devices[places[i]];
    canonical.shares[i] = slice.shares[places[i]];
  }
  return canonical;
}

CollectiveProblem Reductions::ProblemOf(const std::vector<int>& devices, int at_once) const {
  CollectiveProblem problem;
  problem.members = static_cast<int>(devices.size());
  for (const std::vector<int>& of_level : places_) {
    std::vector<int>& of_members = problem.places_of_members.emplace_back();
    for (const int a : devices) of_members.push_back(of_level[a]);
  }
  problem.groups_at_once = at_once;
  problem.wire_bytes_per_element = problem_.wire_bytes_per_element;
  for (const int a : devices) {
    problem.host_of_member.push_back(hosts_[a]);
    problem.cards_of_member.push_back(problem_.devices[a].network_cards);
    for (const int b : devices) problem.links.push_back(a == b ? nullptr : &problem_.links.Between(a, b));
  }
  return problem;
}

std::vector<Reductions::Copies> Reductions::CopiesOf(const std::vector<int>& devices) const {
  std::vector<Copies> copies;
  if (GroupWayOf(problem_, devices, GroupUse::kPasses) != GroupWay::kHost) return copies;
  const auto per_byte = [](double bytes_per_second) {
    return bytes_per_second > 0 ? 1 / bytes_per_second : 0;
  };
  for (const int d : devices) {
    const DeviceCost& device = problem_.devices[d];
    if (!device.has_own_memory) continue;
    copies.push_back({per_byte(device.store_bytes_per_second), per_byte(device.fetch_bytes_per_second)});
  }
  return copies;
}

double Reductions::CopySeconds(int group, double stored_bytes, double fetched_bytes) const {
  double slowest_seconds = 0;
  for (const Copies& copies : groups_[group].copies) {
    slowest_seconds = std::max(slowest_seconds, stored_bytes * copies.store_seconds_per_byte +
                                                    fetched_bytes * copies.fetch_seconds_per_byte);
  }
  return slowest_seconds;
}

int Reductions::GroupOf(const std::vector<int>& devices, int at_once, bool on_hosts) {
  std::vector<int> key;
  key.reserve(devices.size() + 2);
  for (const int d : devices) key.push_back(classes_[d]);
  std::sort(key.begin(), key.end());
  key.push_back(at_once);
  key.push_back(on_hosts ? 1 : 0);
  const auto [entry, inserted] =
      group_by_classes_.try_emplace(std::move(key), static_cast<int>(groups_.size()));
  if (inserted) {
    Group& group = groups_.emplace_back();
    group.members = static_cast<int>(devices.size());
    group.exchanges_by_library = LibrarySumsOf(problem_, devices, GroupUse::kPasses);
    group.sums_by_library = LibrarySumsOf(problem_, devices, GroupUse::kGradients, on_hosts);
    if (devices.size() > kMostChosenFor) {
      group.many = std::make_unique<GroupSums>(samples_, Canonical(devices), kMostSummed, at_once, on_hosts);
      group.ways_in = static_cast<int>(2 * devices.size());
      return entry->second;
    }
    group.problem = ProblemOf(Canonical(devices), at_once);
    group.copies = CopiesOf(devices);
    group.ways_in = group.problem.members;
    const std::vector<int>& cards = group.problem.cards_of_member;
    if (std::any_of(cards.begin(), cards.end(), [](int count) { return count > 0; }))
      group.ways_in += group.problem.members;
    for (const Boundary& boundary : BoundariesOf(group.problem)) {
      group.ways_in += 1 + *std::max_element(boundary.begin(), boundary.end());
    }
  }
  return entry->second;
}

double Reductions::Seconds(int group, int64_t elements) {
  if (!problem_.charges_least_scatters) return WholeSeconds(group, elements);
  if (groups_[group].sums_by_library != nullptr || groups_[group].many != nullptr)
    return WholeSeconds(group, elements) / 2;
  const auto [entry, inserted] = groups_[group].seconds_by_elements.try_emplace(elements, 0);
  if (inserted) entry->second = LeastScatterSeconds(group, elements);
  return entry->second;
}

// Each member gives away all of the vector but its own slice, so that together they send n - 1 vectors, each as fast as its fastest link is.
// In a ring they have an edge each, which the slower of its ends bounds: of two edges the slowest member, of one more each of the others but the fastest.
double Reductions::LeastScatterSeconds(int group, int64_t elements) const {
  const CollectiveProblem& problem = groups_[group].problem;
  const int n = problem.members;
  if (n < 2 || elements == 0) return 0;
  double least_latency_seconds = std::numeric_limits<double>::infinity();
  LinkRise of_all;
  std::vector<double> bytes_per_second;
  for (int member = 0; member < n; ++member) {
    LinkRise rise;
    for (int other = 0; other < n; ++other) {
      if (other == member) continue;
      for (const LinkCost* const link : {problem.Link(member, other), problem.Link(other, member)}) {
        rise.Cover(*link);
        least_latency_seconds = std::min(
            {least_latency_seconds, link->transfer.LatencySeconds(), link->exchange.LatencySeconds()});
      }
    }
    of_all.Cover(rise);
    bytes_per_second.push_back(rise.bytes_per_second);
  }
  std::sort(bytes_per_second.begin(), bytes_per_second.end());
  if (!MayHalve(n)) bytes_per_second.back() = bytes_per_second.front();
  const double bytes =
                   problem.wire_bytes_per_element * static_cast<double>(elements) - n * of_all.level_bytes,
               together = std::accumulate(bytes_per_second.begin(), bytes_per_second.end(), 0.0);
  return least_latency_seconds + (bytes > 0 && together > 0 ? (n - 1) * bytes / together : 0);
}

bool Reductions::MayHalve(size_t devices) const {
  const std::optional<CollectiveAlgorithm>& forced = problem_.forced_all_reduce;
  return devices > 2 && (!forced || forced == CollectiveAlgorithm::kHalvingDoubling);
}

Reductions::SharedTimes Reductions::HalvedTimes(CollectiveProblem problem, const SharedSlice& slice) {
  const int members = static_cast<int>(slice.devices.size());
  problem.elements = slice.elements;
  SharedTimes times;
  times.scatter_seconds =
      CollectiveSeconds(problem, HalvingReduceScatter(members, slice.elements, slice.shares));
  problem.wire_bytes_per_element = kGatheredBytesPerElement;
  times.gather_seconds = CollectiveSeconds(problem, DoublingAllGather(members, slice.elements, slice.shares));
  return times;
}

const Reductions::SharedTimes& Reductions::RingTimesOf(Group& group, const SharedSlice& slice) {
  const SharedSlice canonical = Canonical(slice);
  const auto [entry, inserted] =
      group.shared_seconds.try_emplace({canonical.elements, canonical.shares}, SharedTimes{});
  if (inserted) {
    CollectiveProblem& problem = group.problem;
    problem.elements = canonical.elements;
    chosen_members_ += problem.members;
    const GroupShape shape{.order = ChooseSharedRing(problem, canonical.shares).shape.order,
                           .shares = canonical.shares};
    entry->second.scatter_seconds = medley::RingSeconds(problem, shape, SumPart::kScattered);
    CollectiveProblem gathering = problem;
    gathering.wire_bytes_per_element = kGatheredBytesPerElement;
    entry->second.gather_seconds = medley::RingSeconds(gathering, shape, SumPart::kGathered);
  }
  return entry->second;
}

double Reductions::SharedSeconds(const SharedSlice& slice, SumPart part) {
  const int members = static_cast<int>(slice.devices.size());
  if (members < 2) return 0;
  const int number = GroupOf(slice.devices, slice.at_once, slice.on_hosts);
  Group& group = groups_[number];
  if (group.sums_by_library != nullptr || group.many != nullptr) {
    const double all = std::accumulate(slice.shares.begin(), slice.shares.end(), 0.0),
                 least = *std::min_element(slice.shares.begin(), slice.shares.end()) / all;
    const int64_t even = ElementsAsEven(slice.elements, members, least);
    return group.many == nullptr ? WholeSeconds(number, even) / 2 : ManyOf(slice).SecondsOf(even, part);
  }
  const SharedTimes* times = &RingTimesOf(group, slice);
  if (MayHalve(slice.devices.size())) {
    const SharedTimes& halved = HalvedTimesOf(group, slice);
    if (MustHalve(slice.devices.size()) || halved.both() < times->both()) times = &halved;
  }
  return times->Of(part);
}

double Reductions::SharedRingSeconds(const SharedSlice& slice, SumPart part) {
  if (slice.devices.size() < 2) return 0;
  return RingTimesOf(groups_[GroupOf(slice.devices, slice.at_once, slice.on_hosts)], slice).Of(part);
}

// Who is beside whom as they are numbered is what halves go by.
GroupSums& Reductions::ManyOf(const SharedSlice& slice) {
  std::vector<int> key;
  key.reserve(slice.devices.size() + 2);
  for (const int d : slice.devices) key.push_back(classes_[d]);
  key.push_back(slice.at_once);
  key.push_back(slice.on_hosts ? 1 : 0);
  std::unique_ptr<GroupSums>& many = many_in_order_[std::move(key)];
  if (many == nullptr)
    many = std::make_unique<GroupSums>(samples_, slice.devices, kMostSummed, slice.at_once, slice.on_hosts);
  return *many;
}

const Reductions::SharedTimes& Reductions::HalvedTimesOf(Group& group, const SharedSlice& slice) {
  std::vector<int> classes;
  for (const int d : slice.devices) classes.push_back(classes_[d]);
  const bool is_canonical = std::is_sorted(classes.begin(), classes.end());
  const auto [halved, is_new] =
      group.halved_seconds.try_emplace({slice.elements, slice.shares, std::move(classes)}, SharedTimes{});
  if (is_new) {
    chosen_members_ += static_cast<int>(slice.devices.size());
    halved->second =
        HalvedTimes(is_canonical ? group.problem : ProblemOf(slice.devices, slice.at_once), slice);
  }
  return halved->second;
}

double Reductions::WholeSeconds(int group, int64_t elements) {
  if (groups_[group].sums_by_library != nullptr) {
    return MeasuredSumSeconds(*groups_[group].sums_by_library, groups_[group].members,
                              problem_.wire_bytes_per_element * static_cast<double>(elements));
  }
  if (groups_[group].many != nullptr) return groups_[group].many->SecondsOf(elements);
  const auto [entry, inserted] = groups_[group].seconds_by_elements.try_emplace(elements, 0);
  if (inserted) {
    CollectiveProblem& problem = groups_[group].problem;
    problem.elements = elements;
    chosen_members_ += problem.members;
    entry->second = ChooseAllReduce(problem, problem_.forced_all_reduce).predicted_seconds;
  }
  return entry->second;
}

double Reductions::ExchangeSeconds(int group, int64_t elements, Dtype dtype) {
  const double bytes = static_cast<double>(elements * SizeOf(dtype).value);
  if (groups_[group].exchanges_by_library != nullptr)
    return MeasuredSumSeconds(*groups_[group].exchanges_by_library, groups_[group].members, bytes);
  const auto [entry, inserted] = groups_[group].exchange_seconds.try_emplace({elements, dtype}, 0);
  if (inserted) {
    CollectiveProblem problem = groups_[group].problem;
    problem.elements = elements;
    problem.wire_bytes_per_element = static_cast<double>(SizeOf(dtype).value);
    chosen_members_ += problem.members;
    entry->second = ChooseAllReduce(problem).predicted_seconds + CopySeconds(group, bytes, bytes);
  }
  return entry->second;
}

double Reductions::GatherSeconds(int group, Bytes bytes) {
  return HalfRingSeconds(group, ExchangeKind::kGather, bytes);
}

double Reductions::ScatterSeconds(int group, Bytes bytes) {
  return HalfRingSeconds(group, ExchangeKind::kScatter, bytes);
}

double Reductions::HalfRingSeconds(int group, ExchangeKind half, Bytes bytes) {
  if (groups_[group].exchanges_by_library != nullptr) {
    return MeasuredSumSeconds(*groups_[group].exchanges_by_library, groups_[group].members,
                              static_cast<double>(bytes.value)) /
           2;
  }
  const auto [entry, inserted] = groups_[group].half_ring_seconds.try_emplace({half, bytes.value}, 0);
  if (inserted) {
    CollectiveProblem problem = groups_[group].problem;
    problem.elements = bytes.value;
    problem.wire_bytes_per_element = 1;
    const SumPart part = half == ExchangeKind::kGather ? SumPart::kGathered : SumPart::kScattered;
    const double all = static_cast<double>(bytes.value),
                 back = half == ExchangeKind::kGather ? all : all / problem.members;
    entry->second = RingSeconds(problem, {}, part) + CopySeconds(group, all, back);
  }
  return entry->second;
}

double Reductions::ExchangeSeconds(int group, const GroupExchange& exchange) {
  if (exchange.kind == ExchangeKind::kSum) return ExchangeSeconds(group, exchange.elements, exchange.dtype);
  return HalfRingSeconds(group, exchange.kind, exchange.bytes());
}

CollectiveChoice Reductions::Choose(const std::vector<int>& devices, int64_t elements, int at_once,
                                    std::optional<CollectiveAlgorithm> algorithm) const {
  if (devices.size() > kMostChosenFor) {
    const std::vector<int> canonical = Canonical(devices);
    GroupSums sums(samples_, canonical, kMostSummed, at_once);
    return Renumbered(sums.Choose(elements, algorithm), canonical, devices);
  }
  return ChooseFor(devices, elements, problem_.wire_bytes_per_element, at_once, algorithm);
}

CollectiveChoice Reductions::ChooseShared(const SharedSlice& slice) const {
  if (slice.devices.size() > kMostChosenFor) {
    GroupSums sums(samples_, slice.devices, kMostSummed, slice.at_once, /*on_hosts=*/true);
    CollectiveChoice choice = sums.SharesByHalves(slice.elements)
                                  ? CollectiveChoice{CollectiveAlgorithm::kHalvingDoubling, {}, 0}
                                  : sums.Choose(slice.elements, CollectiveAlgorithm::kRing);
    choice.predicted_seconds = 0;
    for (const SumPart part : {SumPart::kScattered, SumPart::kGathered})
      choice.predicted_seconds += sums.SecondsOf(slice.elements, part);
    return choice;
  }
  const SharedSlice canonical = Canonical(slice);
  CollectiveProblem problem = ProblemOf(canonical.devices, slice.at_once);
  problem.elements = slice.elements;
  CollectiveChoice ring =
      Renumbered(ChooseSharedRing(problem, canonical.shares), canonical.devices, slice.devices);
  if (!MayHalve(slice.devices.size())) return ring;
  const double halved_seconds = HalvedTimes(ProblemOf(slice.devices, slice.at_once), slice).both();
  if (!MustHalve(slice.devices.size()) && halved_seconds >= ring.predicted_seconds) return ring;
  return {CollectiveAlgorithm::kHalvingDoubling, {}, halved_seconds};
}

bool Reductions::Nests(const std::vector<int>& devices) const {
  if (devices.size() > kMostChosenFor) return GroupSums(samples_, Canonical(devices), kMostSummed).Nests();
  return !Boundaries(Canonical(devices)).empty();
}

CollectiveChoice Reductions::ChooseExchange(const std::vector<int>& devices, int64_t elements,
                                            Dtype dtype) const {
  return ChooseFor(devices, elements, static_cast<double>(SizeOf(dtype).value), /*at_once=*/1, std::nullopt);
}

CollectiveChoice Reductions::ChooseFor(const std::vector<int>& devices, int64_t elements,
                                       double wire_bytes_per_element, int at_once,
                                       std::optional<CollectiveAlgorithm> algorithm) const {
  const std::vector<int> canonical = Canonical(devices);
  CollectiveProblem problem = ProblemOf(canonical, at_once);
  problem.elements = elements;
  problem.wire_bytes_per_element = wire_bytes_per_element;
  return Renumbered(ChooseAllReduce(problem, algorithm), canonical, devices);
}

CollectiveChoice Reductions::Renumbered(CollectiveChoice choice, const std::vector<int>& from,
                                        const std::vector<int>& to) {
  std::unordered_map<int, int> place_of_device;
  for (size_t i = 0; i < to.size(); ++i) place_of_device.emplace(to[i], static_cast<int>(i));
  std::vector<int> places;
  for (const int d : from) places.push_back(place_of_device.at(d));
  GroupShape& shape = choice.shape;
  if (shape.order.empty()) {
    shape.order = places;
  } else {
    for (int& member : shape.order) member = places[member];
  }
  if (std::is_sorted(shape.order.begin(), shape.order.end())) shape.order.clear();
  if (!shape.shares.empty()) {
    std::vector<double> shares(places.size());
    for (size_t i = 0; i < places.size(); ++i) shares[places[i]] = shape.shares[i];
    shape.shares = std::move(shares);
  }
  return choice;
}

absl::StatusOr<std::vector<int>> DevicesOfRanks(const std::unordered_map<std::string, int>& device_by_name,
                                                const Plan& plan) {
  std::vector<int> devices;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    for (const std::string& name : plan.units[u].devices) {
      const auto device = device_by_name.find(name);
      if (device == device_by_name.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("units[", u, "].devices: \"", name, "\" is not a device of the problem"));
      }
      devices.push_back(device->second);
    }
  }
  return devices;
}

SumsAtOnce::SumsAtOnce(const PlanningProblem& problem, const Plan& plan, const std::vector<int>& devices) {
  for (const Unit& unit : plan.units) {
    const size_t first = beside_.size(), end = first + unit.devices.size();
    for (size_t rank = first; rank < end; ++rank) {
      const int host = problem.devices[devices[rank]].host;
      int beside = 0;
      for (size_t other = first; other < end; ++other)
        beside += other == rank || (host >= 0 && problem.devices[devices[other]].host == host);
      beside_.push_back(beside);
      degree_.push_back(static_cast<int>(unit.devices.size()));
    }
  }
}

int SumsAtOnce::Over(const std::vector<Rank>& holders) const {
  int fewest = std::numeric_limits<int>::max();
  for (const Rank holder : holders) fewest = std::min(fewest, beside_[holder]);
  return fewest;
}

bool SumsAtOnce::OnHosts(const GradientSlice& slice) const {
  // Parts of slices are of units of several devices.
  return std::any_of(slice.holders.begin(), slice.holders.end(),
                     [&](Rank holder) { return SumsOnHosts(degree_[holder], slice.sums_on_hosts); });
}

int64_t ElementsAsEven(int64_t elements, int members, double least_part) {
  if (members < 2) return elements;
  constexpr int kParts = 16;
  return elements * std::lround(kParts * (1 - least_part) * members / (members - 1)) / kParts;
}

absl::StatusOr<std::vector<ReductionChoice>> ReductionsOf(const PlanningProblem& problem, const Plan& plan) {
  return ReductionsOf(problem, plan, Reductions(problem));
}

absl::StatusOr<std::vector<ReductionChoice>> ReductionsOf(const PlanningProblem& problem, const Plan& plan,
                                                          const Reductions& choosing) {
  ASSIGN_OR_RETURN(const std::vector<int> devices, DevicesOfRanks(DevicesByName(problem), plan));
  const SumsAtOnce at_once(problem, plan, devices);
  std::vector<ReductionChoice> reductions;
  std::set<std::pair<std::vector<Rank>, int64_t>> seen;
  // Ranks that do the same hold the same with the same others.
  const std::vector<Rank> stand_ins = StandInsOf(plan);
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    if (stand_ins[rank] != rank) continue;
    for (const GradientSlice& slice : SlicesOf(plan, rank, problem.shape.model)) {
      if (slice.holders.size() < 2 || !seen.emplace(slice.holders, slice.elements).second) continue;
      std::vector<int> holders;
      for (const Rank holder : slice.holders) holders.push_back(devices[holder]);
      const int beside = at_once.Over(slice.holders);
      reductions.push_back({slice.holders, slice.elements,
                            slice.shares.empty()
                                ? choosing.Choose(holders, slice.elements, beside)
                                : choosing.ChooseShared({holders, slice.shares, slice.elements, beside})});
    }
  }
  return reductions;
}

absl::StatusOr<std::vector<ReductionChoice>> ExchangesOf(const PlanningProblem& problem, const Plan& plan) {
  return ExchangesOf(problem, plan, Reductions(problem));
}

absl::StatusOr<std::vector<ReductionChoice>> ExchangesOf(const PlanningProblem& problem, const Plan& plan,
                                                         const Reductions& choosing) {
  ASSIGN_OR_RETURN(const std::vector<int> devices, DevicesOfRanks(DevicesByName(problem), plan));
  std::vector<ReductionChoice> exchanges;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    const Unit& unit = plan.units[u];
    const int degree = static_cast<int>(unit.devices.size());
    if (degree < 2) continue;
    const Rank first = FirstRankOf(plan, u);
    std::vector<Rank> ranks;
    for (int member = 0; member < degree; ++member) ranks.push_back(first + member);
    const std::vector<int> group(devices.begin() + first, devices.begin() + first + degree);
    std::set<int64_t> seen;
    for (const Visit& visit : VisitsOf(plan, u)) {
      for (const InstructionKind kind :
           {InstructionKind::kForward, InstructionKind::kBackward, InstructionKind::kJoinGradients}) {
        if (kind == InstructionKind::kJoinGradients && !unit.sequence_parallel) continue;
        for (const GroupExchange& exchange : GroupExchanges(
                 problem.shape.model, {.kind = kind,
                                      .blocks = unit.chunks[visit.chunk],
                                      .rows = int64_t{visit.micro_batch_sequences} * problem.shape.sequence,
                                      .degree = degree,
                                      .activations = unit.activations,
                                      .sequence_parallel = unit.sequence_parallel,
                                      .sequences = visit.micro_batch_sequences,
                                      .parts = unit.exchange_parts})) {
          if (exchange.kind != ExchangeKind::kSum) continue;
          if (!seen.insert(exchange.elements).second) continue;
          exchanges.push_back(
              {ranks, exchange.elements, choosing.ChooseExchange(group, exchange.elements, exchange.dtype)});
        }
      }
    }
  }
  return exchanges;
}

}  // namespace medley
