#include "coordinator/predictor/reductions.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/group_sums.h"
#include "coordinator/predictor/whole_collective.h"
#include "runtime/ir/collective/choose_all_reduce.h"
#include "runtime/ir/collective/collective_time.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

LinkCost Link(double latency_seconds, double rate) {
  return {LinkModel::Line(latency_seconds, rate), LinkModel::Line(latency_seconds, rate)};
}

// `devices` devices, links by what `link` says of two of them.
template <typename LinkOf>
PlanningProblem Problem(int devices, const LinkOf& link) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 4, .hidden = 64, .heads = 2, .feed_forward = 256, .vocabulary = 1000, .context = 64};
  problem.shape.sequence = 64;
  problem.shape.global_batch_sequences = 8;
  problem.micro_batch_sizes = {1};
  problem.links = DeviceLinks(static_cast<int>(devices));
  for (int a = 0; a < devices; ++a) {
    problem.devices.push_back({.name = absl::StrCat("d", a), .processor = a});
    for (int b = 0; b < devices; ++b) {
      if (a != b) problem.links.Set(a, b, link(std::min(a, b), std::max(a, b)));
    }
  }
  return problem;
}

// Devices of a few kinds, alike within a kind, and on now and then hosts of two.
PlanningProblem RandomLinks(std::mt19937_64& random) {
  const auto real = [&] { return std::uniform_real_distribution<double>(0.1, 1)(random); };
  std::vector<int> kinds(3 + random() % 4);
  for (int& kind : kinds) kind = static_cast<int>(random() % 3);
  std::vector<std::vector<LinkCost>> between(3, std::vector<LinkCost>(3));
  for (auto& row : between) {
    for (LinkCost& link : row) link = Link(1e-4 * real(), 1e9 * real());
  }
  const bool hosts = random() % 2 == 0;
  const LinkCost inside = Link(1e-6, 1e10);
  PlanningProblem problem = Problem(static_cast<int>(kinds.size()), [&](int a, int b) {
    return hosts && a / 2 == b / 2 ? inside
                                   : between[std::min(kinds[a], kinds[b])][std::max(kinds[a], kinds[b])];
  });
  for (size_t d = 0; d < kinds.size() && hosts; ++d) problem.devices[d].host = static_cast<int>(d) / 2;
  return problem;
}

std::vector<int> RandomDevices(const PlanningProblem& problem, std::mt19937_64& random) {
  std::vector<int> devices;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) devices.push_back(d);
  std::shuffle(devices.begin(), devices.end(), random);
  devices.resize(2 + random() % (devices.size() - 1));
  return devices;
}

// `hosts` hosts of `on_host` devices, those of every other one with the first end and the rest with the second.
PlanningProblem TwoEnds(int hosts, int on_host, const LinkCost& within, const LinkCost& between) {
  PlanningProblem problem;
  std::vector<int> ends, numbers;
  for (int d = 0; d < hosts * on_host; ++d) {
    problem.devices.push_back({.name = absl::StrCat("d", d), .processor = d, .host = d / on_host});
    ends.push_back(d / on_host % 2);
    numbers.push_back(d / on_host);
  }
  problem.links = DeviceLinks(ends, numbers, 2);
  for (const auto& [a, b] : {std::pair(0, 0), std::pair(0, 1), std::pair(1, 1)}) {
    problem.links.SetWithinHosts(a, b, within);
    problem.links.SetBetweenHosts(a, b, between);
  }
  return problem;
}

TEST_CASE("of thousands of hosts one counts where its links differ from those to any end outside of it") {
  const LinkCost fast = Link(1e-6, 1e10), slow = Link(1e-4, 1e9);
  PlanningProblem problem = TwoEnds(1250, 8, fast, slow);
  CHECK(Reductions(problem).ClassOf(0) != Reductions(problem).ClassOf(16));
  // Those of the second end reach others of it on other hosts as fast as on their own.
  problem = TwoEnds(8, 4, fast, slow);
  problem.links.SetBetweenHosts(1, 1, fast);
  const Reductions some(problem);
  CHECK(some.ClassOf(0) != some.ClassOf(8));
  CHECK(some.ClassOf(0) == some.ClassOf(3));
  CHECK(some.ClassOf(4) == some.ClassOf(12));
}

TEST_CASE("there is a link of each kind, within a host where two devices share one, and between two hosts") {
  const LinkCost fast = Link(1e-6, 1e10), slow = Link(1e-4, 1e9);
  const auto kinds = [](const PlanningProblem& problem) {
    std::vector<std::tuple<int, int, bool>> all;
    for (const LinkedDevices& link : KindsOfLinks(problem)) {
      CHECK(link.a != link.b);
      CHECK((HostOf(problem, link.a) == HostOf(problem, link.b)) == link.within_host);
      all.emplace_back(problem.links.EndOf(link.a), problem.links.EndOf(link.b), link.within_host);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  using All = std::vector<std::tuple<int, int, bool>>;
  CHECK(kinds(TwoEnds(20'000, 1, fast, slow)) == All{{0, 0, false}, {0, 1, false}, {1, 1, false}});
  CHECK(kinds(TwoEnds(2, 1, fast, slow)) == All{{0, 1, false}});
  CHECK(kinds(TwoEnds(2, 2, fast, slow)) == All{{0, 0, true}, {0, 1, false}, {1, 1, true}});
  CHECK(kinds(TwoEnds(3, 2, fast, slow)) == All{{0, 0, false}, {0, 0, true}, {0, 1, false}, {1, 1, true}});
  // Two ends on one host, and one of them on another one, too.
  PlanningProblem mixed = TwoEnds(2, 2, fast, slow);
  mixed.links = DeviceLinks({0, 1, 1, 1}, {0, 0, 1, 1}, 2);
  CHECK(kinds(mixed) == All{{0, 1, false}, {0, 1, true}, {1, 1, false}, {1, 1, true}});
}

TEST_CASE("what a sum takes depends on the set of devices, and is what its choice takes in any order") {
  int alike = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const PlanningProblem problem = RandomLinks(random);
    Reductions reductions(problem);
    for (int i = 0; i < 10; ++i) {
      const std::vector<int> devices = RandomDevices(problem, random);
      const int64_t elements = 1 + static_cast<int64_t>(random() % 3'000'000);
      const double seconds = reductions.Seconds(reductions.GroupOf(devices), elements);
      std::vector<int> sorted = devices;
      std::sort(sorted.begin(), sorted.end());
      CHECK(reductions.GroupOf(sorted) == reductions.GroupOf(devices));
      const CollectiveChoice choice = reductions.Choose(devices, elements);
      CHECK(choice.predicted_seconds == seconds);
      // The choice, as it is in the order of `devices`.
      CollectiveProblem asked{.members = static_cast<int>(devices.size()), .elements = elements};
      for (const int a : devices) {
        for (const int b : devices) asked.links.push_back(&problem.links.Between(a, b));
        if (problem.devices[0].host >= 0) asked.host_of_member.push_back(problem.devices[a].host);
      }
      // Messages that contend for a boundary take turns in the order of the members, so the times differ a
      // little.
      CHECK(AllReduceSeconds(asked, choice) == Approx(seconds).epsilon(0.4));
      // Another set of devices alike.
      std::vector<int> other = devices;
      for (int& d : other) {
        for (int e = 0; e < static_cast<int>(problem.devices.size()); ++e) {
          if (reductions.ClassOf(e) != reductions.ClassOf(d) || std::count(other.begin(), other.end(), e) > 0)
            continue;
          d = e;
          ++alike;
          break;
        }
      }
      CHECK(reductions.GroupOf(other) == reductions.GroupOf(devices));
      CHECK(reductions.Choose(other, elements).predicted_seconds == seconds);
    }
  }
  CHECK(alike > 50);
}

TEST_CASE("two sites of two devices sum inside first, if the links show it") {
  PlanningProblem problem =
      Problem(4, [](int a, int b) { return a / 2 == b / 2 ? Link(1e-5, 1e10) : Link(1e-3, 1e7); });
  const CollectiveChoice choice = Reductions(problem).Choose({2, 0, 1, 3}, 1'000'000);
  CHECK(choice.algorithm == CollectiveAlgorithm::kHierarchical);
  REQUIRE(!choice.shape.levels.empty());
  CHECK(choice.shape.levels[0] == std::vector<int>{2, 2});
  REQUIRE(choice.shape.order.size() == 4);
  // Places 0 and 3 are one site.
  const std::vector<int> first = {choice.shape.order[0], choice.shape.order[1]};
  CHECK(std::count(first.begin(), first.end(), 0) == std::count(first.begin(), first.end(), 3));
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const CollectiveChoice forced = Reductions(problem).Choose({2, 0, 1, 3}, 1'000'000);
  CHECK(forced.algorithm == CollectiveAlgorithm::kRing);
  CHECK(forced.predicted_seconds > choice.predicted_seconds);
}

TEST_CASE("a host counts where the links show it, or a hierarchy is forced") {
  PlanningProblem problem = Problem(4, [](int, int) { return Link(1e-5, 1e9); });
  for (int d = 0; d < 4; ++d) problem.devices[d].host = d / 2;
  Reductions hidden(problem);
  CHECK(hidden.ClassOf(0) == hidden.ClassOf(3));
  problem.forced_all_reduce = CollectiveAlgorithm::kHierarchical;
  Reductions forced(problem);
  CHECK(forced.ClassOf(0) == forced.ClassOf(1));
  CHECK(forced.ClassOf(0) != forced.ClassOf(3));
  CHECK(forced.Choose({0, 2, 1, 3}, 1000).shape.levels == std::vector<std::vector<int>>{{2, 2}});
}

TEST_CASE("slices of unlike sizes take as long as even ones of more elements, for rings carry all but one") {
  CHECK(ElementsAsEven(1000, 1, 0) == 1000);
  for (const int members : {2, 3, 7, 1000})
    CHECK(ElementsAsEven(1'000'003, members, 1.0 / members) == 1'000'003);
  CHECK(ElementsAsEven(1600, 2, 0.25) == 2400);
  CHECK(ElementsAsEven(1600, 2, 0) == 3200);  // all of it goes one way
  CHECK(ElementsAsEven(1600, 5, 0) == 2000);
  // As the rings' own messages say, of large vectors.
  const PlanningProblem problem = Problem(4, [](int, int) { return Link(0, 1e9); });
  CollectiveProblem sum{.members = 4, .wire_bytes_per_element = 4};
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) sum.links.push_back(a == b ? nullptr : &problem.links.Between(a, b));
  }
  sum.elements = 1 << 26;
  const double all_seconds = 4.0 * static_cast<double>(sum.elements) / 1e9;
  for (const std::vector<double>& shares : {std::vector<double>{1, 1, 1, 1}, {4, 4, 1, 1}, {5, 2, 2, 1}}) {
    const double all = shares[0] + shares[1] + shares[2] + shares[3], least = shares[3] / all;
    const double seconds = CollectiveSeconds(sum, RingReduceScatter(4, sum.elements, {.shares = shares}));
    CHECK(seconds == Approx(all_seconds * (1 - least)).epsilon(0.1));
    CHECK(seconds == Approx(0.75 * all_seconds * static_cast<double>(ElementsAsEven(sum.elements, 4, least)) /
                            static_cast<double>(sum.elements))
                         .epsilon(0.1));
  }
}

TEST_CASE("what is scattered takes no less than any ring can, or halves, in whatever order and parts",
          "[property]") {
  int sharp = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    PlanningProblem problem = RandomLinks(random);
    const std::vector<int> devices = RandomDevices(problem, random);
    SharedSlice slice{.devices = devices, .elements = 1 + static_cast<int64_t>(random() % 10'000'000)};
    for (size_t i = 0; i < devices.size(); ++i) slice.shares.push_back(static_cast<double>(random() % 4));
    slice.shares[random() % devices.size()] = 1;
    Reductions reductions(problem);
    const double scatter_seconds = reductions.SharedSeconds(slice, SumPart::kScattered),
                 gather_seconds = reductions.SharedSeconds(slice, SumPart::kGathered);
    const bool has_halves = devices.size() > 2;
    if (!has_halves) {  // whatever number a device has in the group
      SharedSlice turned = slice;
      std::reverse(turned.devices.begin(), turned.devices.end());
      std::reverse(turned.shares.begin(), turned.shares.end());
      CHECK(reductions.SharedSeconds(turned, SumPart::kScattered) == scatter_seconds);
      CHECK(reductions.SharedSeconds(turned, SumPart::kGathered) == gather_seconds);
    }
    CHECK(reductions.ChooseShared(slice).predicted_seconds ==
          Approx(scatter_seconds + gather_seconds).epsilon(1e-12));
    problem.charges_least_scatters = true;
    Reductions least(problem);
    const double least_seconds = least.Seconds(least.GroupOf(devices), slice.elements);
    CHECK(least_seconds <= scatter_seconds * (1 + 1e-12));
    CHECK(least_seconds <= gather_seconds * (1 + 1e-12));
    CollectiveProblem group{.members = static_cast<int>(devices.size()), .elements = slice.elements};
    for (const int a : devices) {
      for (const int b : devices) group.links.push_back(a == b ? nullptr : &problem.links.Between(a, b));
    }
    GroupShape shape{.order = OrderOf({}, group.members), .shares = slice.shares};
    std::shuffle(shape.order.begin(), shape.order.end(), random);
    CHECK(least_seconds <= RingSeconds(group, shape, SumPart::kScattered) * (1 + 1e-12));
    if (has_halves)
      CHECK(least_seconds <=
            CollectiveSeconds(group, HalvingReduceScatter(group.members, slice.elements, slice.shares)) *
                (1 + 1e-12));
    if (least_seconds > 0.5 * scatter_seconds) ++sharp;
  }
  CHECK(sharp > 30);
  // Of two that exchange alike it is half of a sum.
  PlanningProblem two = Problem(2, [](int, int) { return Link(1e-3, 1e9); });
  Reductions whole(two);
  const double half_seconds = whole.Seconds(whole.GroupOf({0, 1}), 1000) / 2;
  two.charges_least_scatters = true;
  Reductions least(two);
  CHECK(least.Seconds(least.GroupOf({0, 1}), 1000) == Approx(half_seconds).epsilon(1e-12));
}

TEST_CASE("devices that exchange otherwise within passes do not change places") {
  PlanningProblem problem = Problem(4, [](int, int) { return Link(1e-5, 1e9); });
  CHECK(Reductions(problem).ClassOf(3) == Reductions(problem).ClassOf(0));
  problem.devices[1].fetch_bytes_per_second =
      1e9;  // of which nothing depends while the host reaches its memory
  CHECK(Reductions(problem).ClassOf(1) == Reductions(problem).ClassOf(0));
  for (int d = 1; d < 4; ++d) problem.devices[d].has_own_memory = true;
  problem.devices[3].group_library = "NCCL 2.28.3";
  const Reductions reductions(problem);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) CHECK(reductions.ClassOf(a) != reductions.ClassOf(b));
  }
}

TEST_CASE("what a library was measured to take is taken wherever devices exchange by it") {
  constexpr double kSeconds = 1e-3, kBytes = 4e6;
  constexpr int64_t kElements = 1'000'000;
  // Slow beside the library, which was measured over three.
  PlanningProblem problem = Problem(3, [&](int, int) {
    LinkCost link = Link(1e-5, 1e8);
    link.all_reduce = {{3, {{{kBytes / 2, kSeconds / 2}, {kBytes, kSeconds}}}}};
    return link;
  });
  const auto seconds = [&](bool on_hosts = false) {
    Reductions reductions(problem);
    const double of_group = reductions.Seconds(reductions.GroupOf({0, 1, 2}, 1, on_hosts), kElements);
    // As those tell it who sum over many.
    const std::vector<int> class_of(3, 0);
    SumSamples samples(problem, class_of);
    CHECK(GroupSums(samples, {0, 1, 2}, kMostSummed, 1, on_hosts).Seconds(kElements) ==
          Approx(of_group).epsilon(1e-12));
    return of_group;
  };
  const auto exchange_seconds = [&](const std::vector<int>& devices) {
    Reductions reductions(problem);
    const int group = reductions.GroupOf(devices);
    const double sum = reductions.ExchangeSeconds(group, 2 * kElements, Dtype::kBf16);
    CHECK(reductions.GatherSeconds(group, {4'000'000}) + reductions.ScatterSeconds(group, {4'000'000}) ==
          Approx(sum).epsilon(0.05));
    return sum;
  };
  for (DeviceCost& device : problem.devices) device.has_own_memory = true;
  const double by_links = seconds();
  CHECK(by_links > 10 * kSeconds);
  CHECK(exchange_seconds({0, 1, 2}) > 10 * kSeconds);
  for (DeviceCost& device : problem.devices) device.group_library = "NCCL 2.28.3";
  CHECK(seconds() == Approx(kSeconds).epsilon(1e-12));
  CHECK(exchange_seconds({0, 1, 2}) == Approx(kSeconds).epsilon(1e-12));
  // A round instead of two, with messages half as large again.
  CHECK(exchange_seconds({0, 1}) == Approx(kSeconds * 1.5 / 2).epsilon(1e-12));

  // Where the hosts sum, the library takes no part.
  CHECK(seconds(/*on_hosts=*/true) == by_links);
  problem.device_memory = DeviceMemoryStrategy::kStaged;
  CHECK(seconds() == by_links);
  CHECK(exchange_seconds({0, 1, 2}) > 10 * kSeconds);
  problem.device_memory = DeviceMemoryStrategy::kAutomatic;
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  CHECK(seconds() > 10 * kSeconds);
  CHECK(exchange_seconds({0, 1, 2}) == Approx(kSeconds).epsilon(1e-12));
  problem.forced_all_reduce.reset();
  problem.wire_bytes_per_element = 2;
  CHECK(seconds() > 5 * kSeconds);
  problem.wire_bytes_per_element = 4;
  // Of links that were measured otherwise nothing is known of all of them.
  problem.links.Mutable(0, 2).all_reduce.clear();
  problem.links.Mutable(2, 0).all_reduce.clear();
  CHECK(seconds() > 10 * kSeconds);
  CHECK(exchange_seconds({0, 1, 2}) > 10 * kSeconds);
  CHECK(exchange_seconds({0, 1}) < kSeconds);
}

TEST_CASE(
    "what a library was measured to take is taken of any number of devices, if all their links have it") {
  constexpr int64_t kElements = 1'000'000;
  PlanningProblem problem = TwoEnds(200, 2, Link(1e-6, 1e10), Link(1e-4, 1e9));
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
  }
  for (LinkCost& link : problem.links.each()) link.all_reduce = {{400, {{{0, 1e-3}}}}};
  std::vector<int> all(problem.devices.size());
  std::iota(all.begin(), all.end(), 0);
  const auto seconds = [&](bool on_hosts = false) {
    Reductions reductions(problem);
    return reductions.Seconds(reductions.GroupOf(all, 1, on_hosts), kElements);
  };
  CHECK(seconds() == 1e-3);
  Reductions exchanging(problem);
  CHECK(exchanging.ExchangeSeconds(exchanging.GroupOf(all), kElements, Dtype::kF32) == 1e-3);
  problem.charges_least_scatters = true;
  CHECK(seconds() == 0.5e-3);
  problem.charges_least_scatters = false;
  Reductions shared(problem);
  const std::vector<double> even(all.size(), 1);
  for (const SumPart part : {SumPart::kScattered, SumPart::kGathered})
    CHECK(shared.SharedSeconds({all, even, kElements}, part) == 0.5e-3);
  const double by_links = seconds(/*on_hosts=*/true);
  CHECK(by_links > 1e-3);
  // Of the links within hosts, of one of the ends; the first two devices still have what was measured.
  problem.links.Mutable(2, 3).all_reduce = {{400, {{{0, 2e-3}}}}};
  CHECK(seconds() == by_links);
  problem.links.Mutable(2, 3).all_reduce = {{400, {{{0, 1e-3}}}}};
  CHECK(seconds() == 1e-3);
  problem.links.Mutable(0, 4).all_reduce.clear();  // between hosts of the first end
  CHECK(seconds() == by_links);
  // Who does not use these links does not mind.
  Reductions reductions(problem);
  CHECK(reductions.Seconds(reductions.GroupOf({0, 1, 2, 3}), kElements) == Approx(1e-3 * 3 / 399));
}

TEST_CASE("gradients in bf16 take half the time where bytes count") {
  PlanningProblem problem = Problem(3, [](int, int) { return Link(0, 1e9); });
  Reductions f32(problem);
  const double whole = f32.Seconds(f32.GroupOf({0, 1, 2}), 30'000'000);
  problem.wire_bytes_per_element = 2;
  Reductions bf16(problem);
  CHECK(bf16.Seconds(bf16.GroupOf({0, 1, 2}), 30'000'000) == Approx(whole / 2).epsilon(0.01));
}

TEST_CASE("what a unit on several hosts exchanges takes turns on their cards, and inside a host takes none") {
  // Two hosts of two devices, between which a message takes all of the time.
  PlanningProblem problem =
      Problem(4, [](int a, int b) { return a / 2 == b / 2 ? Link(0, 1e12) : Link(0, 1e8); });
  for (int d = 0; d < 4; ++d) problem.devices[d].host = d / 2;
  const int64_t elements = 8'000'000;
  const double bytes = 2.0 * static_cast<double>(elements);  // in bf16
  const auto seconds = [&](const std::vector<int>& devices) {
    Reductions reductions(problem);
    return reductions.ExchangeSeconds(reductions.GroupOf(devices), elements, Dtype::kBf16);
  };
  for (const int cards : {1, 2, 4}) {
    CAPTURE(cards);
    for (DeviceCost& device : problem.devices) device.network_cards = cards;
    // All of the sum leaves each host and enters it, through so many.
    CHECK(seconds({0, 1, 2, 3}) == Approx(bytes / 1e8 / std::min(cards, 2)).epsilon(0.05));
    CHECK(seconds({0, 1}) == Approx(bytes / 1e12).epsilon(0.05));
  }
  // What is gathered goes round all four: one message crosses at a time each way, whatever the cards.
  Reductions reductions(problem);
  CHECK(reductions.GatherSeconds(reductions.GroupOf({0, 1, 2, 3}), {1 << 24}) ==
        Approx(0.75 * (1 << 24) / 1e8).epsilon(0.05));
}

TEST_CASE("sums over many wait for the host with the fewest cards") {
  constexpr int kHosts = 4;
  PlanningProblem problem =
      Problem(2 * kHosts, [](int a, int b) { return a / 2 == b / 2 ? Link(0, 1e12) : Link(0, 1e8); });
  std::vector<int> all;
  for (int d = 0; d < 2 * kHosts; ++d) {
    problem.devices[d].host = d / 2;
    problem.devices[d].network_cards = 2;
    all.push_back(d);
  }
  problem.forced_all_reduce = CollectiveAlgorithm::kHierarchical;
  const int64_t elements = 64'000'000;
  const auto seconds = [&](int most_exact) {
    std::vector<int> class_of;
    for (const DeviceCost& device : problem.devices) class_of.push_back(device.network_cards);
    SumSamples samples(problem, class_of);
    return GroupSums(samples, all, most_exact).Seconds(elements);
  };
  const double round_seconds = 2.0 * (kHosts - 1) / kHosts * 4 * static_cast<double>(elements) / 1e8;
  CHECK(seconds(8) == Approx(round_seconds / 2).epsilon(0.05));
  CHECK(seconds(6) == Approx(round_seconds / 2).epsilon(0.05));
  problem.devices[2].network_cards = problem.devices[3].network_cards = 1;
  CHECK(seconds(8) == Approx(round_seconds).epsilon(0.05));
  CHECK(seconds(6) == Approx(round_seconds).epsilon(0.05));
}

// Some dozens to hundreds of devices of one or two kinds, several to a host, at one to three sites.
struct ManyOnHosts {
  explicit ManyOnHosts(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](const std::vector<int>& of) { return of[random() % of.size()]; };
    const int on_host = pick({1, 1, 2, 4, 8}),
              hosts = std::max(2, pick({20, 33, 64, 100, 128, 200, 256, 320}) / on_host);
    const int sites = pick({1, 1, 2, 3}), kinds = pick({1, 2});
    const int cards = on_host == 1 ? pick({0, 1}) : pick({0, 0, 1, on_host / 2, on_host});
    at_once = cards > 0 && random() % 4 == 0 ? 2 : 1;
    std::vector<int> ends;
    for (int host = 0; host < hosts; ++host) {
      const int site = host * sites / hosts;
      for (int member = 0; member < on_host; ++member) {
        const int d = static_cast<int>(problem.devices.size());
        problem.devices.push_back({.name = absl::StrCat("d", d),
                                   .processor = d,
                                   .host = host,
                                   .network_cards = cards,
                                   .site = cards > 0 ? site : 0});
        ends.push_back(site * kinds + host % kinds);
        host_of.push_back(host);
        devices.push_back(d);
      }
    }
    problem.links = DeviceLinks(ends, host_of, sites * kinds);
    const double slower = std::uniform_real_distribution<double>(0.2, 1)(random);
    // Within hosts ten times as fast as between them, or hardly.
    const double within = random() % 2 == 0 ? 1e11 : 1.2e10;
    for (int a = 0; a < sites * kinds; ++a) {
      problem.links.SetWithinHosts(a, a, Link(5e-6, a % kinds == 0 ? within : 1e11));
      for (int b = 0; b <= a; ++b) {
        const double rate = a % kinds + b % kinds > 0 ? 1e10 * slower : 1e10;
        problem.links.SetBetweenHosts(a, b, a / kinds == b / kinds ? Link(1e-5, rate) : Link(1e-3, 2e9));
      }
    }
  }

  // Of all devices, with each pair of them looked at.
  CollectiveProblem Whole(int64_t elements) const {
    CollectiveProblem whole = WholeCollective(problem, devices, at_once);
    whole.elements = elements;
    return whole;
  }

  PlanningProblem problem;
  int at_once = 1;
  std::vector<int> host_of, devices;
};

TEST_CASE("what sums over many take is nearly told by some of them, and they are nearly as fast") {
  double off = 0, slower = 0;
  int told = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const ManyOnHosts many(seed);
    std::vector<int> class_of;
    for (const int d : many.devices) class_of.push_back(many.problem.links.EndOf(d));
    SumSamples samples(many.problem, class_of);
    GroupSums sums(samples, many.devices, kMostSummed, many.at_once);
    for (const int64_t elements : {int64_t{20'000}, int64_t{1} << 20, int64_t{1} << 23, int64_t{1} << 26}) {
      CAPTURE(elements);
      const CollectiveProblem whole = many.Whole(elements);
      const double best = ChooseAllReduce(whole).predicted_seconds;
      const CollectiveChoice choice = sums.Choose(elements, {});
      REQUIRE(CheckGroupShape(choice.shape, whole.members).ToString() == "OK");
      CHECK(choice.predicted_seconds == sums.SecondsOf(elements));
      CHECK(std::abs(std::log(choice.predicted_seconds / best)) < 0.8);
      off += std::abs(std::log(choice.predicted_seconds / best));
      slower += AllReduceSeconds(whole, choice) / best - 1;
      ++told;
    }
  }
  CHECK(off / told < 0.07);
  CHECK(slower / told < 0.03);
}

TEST_CASE("halving and doubling over many counts what members of a host exchange with each other") {
  // Hosts whose members reach each other hardly faster than those of others; without cards they share one way out.
  const int cards = GENERATE(0, 2);
  for (const int hosts : {16, 24, 40}) {
    CAPTURE(cards, hosts);
    PlanningProblem problem;
    std::vector<int> host_of, devices;
    for (int d = 0; d < 8 * hosts; ++d) {
      problem.devices.push_back(
          {.name = absl::StrCat("d", d), .processor = d, .host = d / 8, .network_cards = cards});
      host_of.push_back(d / 8);
      devices.push_back(d);
    }
    problem.links = DeviceLinks(std::vector<int>(devices.size(), 0), host_of, 1);
    problem.links.SetWithinHosts(0, 0, Link(5e-6, 2.8e10));
    problem.links.SetBetweenHosts(0, 0, Link(2e-5, 2.5e10));
    const std::vector<int> class_of(devices.size(), 0);
    SumSamples samples(problem, class_of);
    GroupSums sums(samples, devices, kMostSummed);
    SumSample whole(problem, devices, 1);
    for (const CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kHierarchical}) {
      for (const int64_t elements : {int64_t{1} << 20, int64_t{1} << 27})
        CHECK(sums.Choose(elements, algorithm).predicted_seconds ==
              Approx(whole.Choose(elements, algorithm).predicted_seconds).epsilon(0.25));
    }
    for (const int64_t elements : {int64_t{1} << 20, int64_t{1} << 27}) {
      if (elements == 1 << 20) CHECK(sums.SharesByHalves(elements));
      for (const SumPart part : {SumPart::kScattered, SumPart::kGathered})
        CHECK(sums.SecondsOf(elements, part) == Approx(whole.SharedSeconds(elements, part)).epsilon(0.25));
    }
  }
}

TEST_CASE(
    "how more than are looked at pair by pair share a slice is told by rings and halves as they are run") {
  constexpr int kDevices = 300;
  constexpr double kLatencySeconds = 3e-5, kBytesPerSecond = 12.5e9;
  PlanningProblem problem =
      Problem(kDevices, [](int, int) { return Link(kLatencySeconds, kBytesPerSecond); });
  std::vector<int> devices(kDevices);
  std::iota(devices.begin(), devices.end(), 0);
  for (const double latencies : {20, 100, 2000}) {
    CAPTURE(latencies);
    const auto elements = static_cast<int64_t>(latencies * kLatencySeconds * kBytesPerSecond / 4);
    const SharedSlice slice{
        .devices = devices, .shares = std::vector<double>(kDevices, 1), .elements = elements};
    CollectiveProblem all{.members = kDevices, .elements = elements};
    for (const int a : devices) {
      for (const int b : devices) all.links.push_back(a == b ? nullptr : &problem.links.Between(a, b));
    }
    const double ring_seconds = RingSeconds(all, {.shares = slice.shares}, SumPart::kScattered),
                 halved_seconds =
                     CollectiveSeconds(all, HalvingReduceScatter(kDevices, elements, slice.shares));
    Reductions reductions(problem);
    const CollectiveChoice choice = reductions.ChooseShared(slice);
    CHECK(choice.algorithm == (halved_seconds < ring_seconds ? CollectiveAlgorithm::kHalvingDoubling
                                                             : CollectiveAlgorithm::kRing));
    CHECK(reductions.SharedSeconds(slice, SumPart::kScattered) ==
          Approx(std::min(ring_seconds, halved_seconds)).epsilon(0.25));
  }
}

TEST_CASE("many share a slice by halves where neighbours share a host, and else if latencies count") {
  PlanningProblem problem;
  std::vector<int> hosts, together, apart;
  for (int d = 0; d < 320; ++d) {
    problem.devices.push_back({.name = absl::StrCat("d", d), .processor = d, .host = d % 80});
    hosts.push_back(d % 80);
    apart.push_back(d);
    together.push_back(d / 4 + d % 4 * 80);
  }
  problem.links = DeviceLinks(std::vector<int>(320, 0), hosts, 1);
  problem.links.SetWithinHosts(0, 0, Link(1e-6, 1e11));
  problem.links.SetBetweenHosts(0, 0, Link(1e-4, 1e10));
  Reductions reductions(problem);
  const auto choose = [&](const std::vector<int>& devices, int64_t elements) {
    const SharedSlice slice{.devices = devices, .shares = std::vector<double>(320, 1), .elements = elements};
    const CollectiveChoice choice = reductions.ChooseShared(slice);
    CHECK(choice.predicted_seconds == Approx(reductions.SharedSeconds(slice, SumPart::kScattered) +
                                             reductions.SharedSeconds(slice, SumPart::kGathered)));
    return choice.algorithm;
  };
  CHECK(choose(together, 1 << 16) == CollectiveAlgorithm::kHalvingDoubling);
  CHECK(choose(together, 1 << 22) == CollectiveAlgorithm::kHalvingDoubling);
  CHECK(choose(apart, 1 << 16) == CollectiveAlgorithm::kHalvingDoubling);
  CHECK(choose(apart, 1 << 26) == CollectiveAlgorithm::kRing);
}

TEST_CASE("a group of more than are looked at pair by pair is chosen for by some of them") {
  PlanningProblem problem;
  std::vector<int> hosts, devices;
  for (int d = 0; d < 320; ++d) {
    problem.devices.push_back({.name = absl::StrCat("d", d), .processor = d, .host = d % 80});
    hosts.push_back(d % 80);
    devices.push_back(d);
  }
  problem.links = DeviceLinks(std::vector<int>(320, 0), hosts, 1);
  problem.links.SetWithinHosts(0, 0, Link(1e-6, 1e11));
  problem.links.SetBetweenHosts(0, 0, Link(1e-5, 1e10));
  Reductions reductions(problem);
  CHECK(reductions.Nests(devices));
  std::shuffle(devices.begin(), devices.end(), std::mt19937_64(3));
  const CollectiveChoice choice = reductions.Choose(devices, 1 << 23);
  CHECK(reductions.Seconds(reductions.GroupOf(devices), 1 << 23) == choice.predicted_seconds);
  REQUIRE(CheckGroupShape(choice.shape, 320).ToString() == "OK");
  // Members of a host follow each other, whatever their places in `devices`.
  REQUIRE(choice.shape.order.size() == 320);
  for (size_t i = 0; i < 320; i += 4) {
    for (size_t j = i; j < i + 4; ++j)
      CHECK(hosts[devices[choice.shape.order[j]]] == hosts[devices[choice.shape.order[i]]]);
  }
  const CollectiveChoice forced = reductions.Choose(devices, 1 << 23, 1, CollectiveAlgorithm::kTree);
  CHECK(forced.algorithm == CollectiveAlgorithm::kTree);
  CHECK(forced.predicted_seconds > choice.predicted_seconds);

  // Where nothing sets parts apart.
  for (int d = 0; d < 320; ++d) problem.devices[d].host = d;
  problem.links = DeviceLinks(std::vector<int>(320, 0), devices, 1);
  problem.links.SetBetweenHosts(0, 0, Link(1e-5, 1e10));
  Reductions flat(problem);
  CHECK(!flat.Nests(devices));
  const auto seconds = [&](CollectiveAlgorithm algorithm) {
    const CollectiveChoice one = flat.Choose(devices, 1 << 23, 1, algorithm);
    CHECK(one.algorithm == algorithm);
    return one.predicted_seconds;
  };
  CHECK(seconds(CollectiveAlgorithm::kHierarchical) == seconds(CollectiveAlgorithm::kRing));
  CHECK(seconds(CollectiveAlgorithm::kTree) > seconds(CollectiveAlgorithm::kRing));
  CHECK(seconds(CollectiveAlgorithm::kHalvingDoubling) > seconds(CollectiveAlgorithm::kRing));
}

TEST_CASE("every slice that several units hold has its reduction, once") {
  const PlanningProblem problem =
      Problem(5, [](int a, int b) { return Link(1e-5 * (a + 1), 1e9 / (b + 1)); });
  Plan plan;
  plan.units = {
      {{"d4"}, {{0, 3}}}, {{"d1"}, {{3, 6}}}, {{"d0"}, {{0, 2}}}, {{"d2"}, {{2, 6}}}, {{"d3"}, {{0, 6}}}};
  plan.routes = {{{0, 1}, 3, 1}, {{2, 3}, 3, 1}, {{4}, 2, 1}};
  const auto reductions = ReductionsOf(problem, plan);
  REQUIRE(reductions.ok());
  size_t found = 0;
  for (int u = 0; u < 5; ++u) {
    for (const GradientSlice& slice : SlicesOf(plan, u, problem.shape.model)) {
      if (slice.holders.size() < 2) continue;
      const auto same = [&](const ReductionChoice& reduction) {
        return reduction.holders == slice.holders && reduction.elements == slice.elements;
      };
      CHECK(std::count_if(reductions->begin(), reductions->end(), same) == 1);
      ++found;
    }
  }
  CHECK(found >= reductions->size());
  CHECK(reductions->size() >= 3);
  for (const ReductionChoice& reduction : *reductions) CHECK(reduction.choice.predicted_seconds > 0);

  plan.units[1].devices[0] = "elsewhere";
  const absl::Status unknown = ReductionsOf(problem, plan).status();
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK_THAT(std::string(unknown.message()), Catch::Contains("units[1].devices: \"elsewhere\""));
}

}  // namespace
}  // namespace medley
