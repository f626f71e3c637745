#include "coordinator/planner/classes/sum_floor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/group_sums.h"

namespace medley {
namespace {

TEST_CASE("no sum over as many devices or more takes less than the floor") {
  int known = 0, sharp = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto integer = [&](int low, int high) {
      return low + static_cast<int>(random() % (high - low + 1));
    };
    PlanningProblem problem = ManyDevices(seed, integer(8, 60));
    const int devices = static_cast<int>(problem.devices.size());
    for (DeviceCost& device : problem.devices)
      device.network_cards = device.kind == "kind 0" ? 1 + static_cast<int>(seed % 4) : 2;
    // Half of the links are level at first, as measured ones are.
    if (seed % 2 == 0) {
      for (LinkCost& link : problem.links.each()) {
        for (LinkModel* model : {&link.transfer, &link.exchange}) {
          if (!model->points.empty())
            model->points.insert(model->points.begin() + 1, {16, model->points.front().seconds});
        }
      }
    }
    if (seed % 3 == 0) problem.wire_bytes_per_element = 2;
    if (seed % 5 == 0) problem.forced_all_reduce = CollectiveAlgorithm::kRing;
    AlikeRoutePredictor predictor(problem);
    for (int round = 0; round < 4; ++round) {
      std::vector<int> holders(devices);
      std::iota(holders.begin(), holders.end(), 0);
      const int count = integer(2, devices);
      // Of few hosts, or any.
      if (round % 2 == 0) std::shuffle(holders.begin(), holders.end(), random);
      holders.resize(count);
      std::sort(holders.begin(), holders.end());
      GroupSums& sums = predictor.SumsOver(holders);
      const SumFloor floor(problem, integer(2, count)), at_once(problem, count);
      known += at_once.knows() ? 1 : 0;
      for (const int64_t elements : {1000, 200'000, 30'000'000}) {
        INFO("seed " << seed << ", round " << round << ", " << count << " of " << devices << " devices, "
                     << elements << " elements");
        const double seconds = sums.Seconds(elements),
                     least = at_once.Seconds(static_cast<double>(elements), 1, 1);
        CHECK(floor.Seconds(static_cast<double>(elements), 1, 1) <= seconds);
        CHECK(least <= seconds);
        // Either half, around a ring or by halving.
        CHECK(least / 2 <= sums.Seconds(elements, SumPart::kScattered));
        CHECK(at_once.gathered_over_scattered() == (seed % 3 == 0 ? 2 : 1));
        CHECK(at_once.gathered_over_scattered() * least / 2 <= sums.Seconds(elements, SumPart::kGathered));
        if (elements > 1'000'000 && least > 0.3 * seconds) ++sharp;
      }
    }
  }
  CHECK(known == 160);
  CHECK(sharp > 40);
}

TEST_CASE("the floor of units of several devices is no more than sums of their ranks take") {
  int sharp = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 32);
    for (DeviceCost& device : problem.devices) device.network_cards = 1 + static_cast<int>(seed % 4);
    AlikeRoutePredictor predictor(problem);
    for (const int degree : {1, 2, 4}) {
      std::vector<int> first_ranks;
      std::map<int, int> on_host;
      for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
        if (on_host[problem.devices[d].host]++ % degree == 0) first_ranks.push_back(d);
      }
      const SumFloor floor(problem, static_cast<int>(first_ranks.size()));
      const int64_t elements = 30'000'000;
      INFO("seed " << seed << ", degree " << degree);
      const double seconds = predictor.SumsOver(first_ranks, degree).Seconds(elements / degree);
      // The last unit of a host may have fewer devices.
      const double least = floor.Seconds(static_cast<double>(elements), degree, 1);
      if (std::all_of(on_host.begin(), on_host.end(),
                      [&](const auto& of) { return of.second % degree == 0; })) {
        CHECK(least <= seconds);
        if (degree > 1 && least > 0.3 * seconds) ++sharp;
      }
    }
  }
  CHECK(sharp > 5);
}

TEST_CASE("what is shared with a host takes no less than its floor") {
  int known = 0, sharp = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    PlanningProblem problem = ManyDevices(seed, 16 + static_cast<int>(random() % 45));
    for (DeviceCost& device : problem.devices) device.network_cards = device.kind == "kind 0" ? 1 : 4;
    if (seed % 3 == 0) problem.wire_bytes_per_element = 2;
    AlikeRoutePredictor predictor(problem);
    const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
    for (const DeviceClass& of : classes) {
      std::vector<int> holders(problem.devices.size());
      std::iota(holders.begin(), holders.end(), 0);
      std::shuffle(holders.begin(), holders.end(), random);
      holders.resize(10 + random() % (holders.size() - 9));
      holders.push_back(of.first());
      std::sort(holders.begin(), holders.end());
      holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
      const int count = static_cast<int>(holders.size());
      GroupSums& sums = predictor.SumsOver(holders);
      const SumFloor floor = SumFloor::OfHosts(problem, of, count);
      known += floor.knows() ? 1 : 0;
      for (const int64_t elements : {1000, 200'000, 30'000'000}) {
        INFO("seed " << seed << ", " << count << " of " << problem.devices.size() << " devices, " << elements
                     << " elements");
        const double least = floor.Seconds(static_cast<double>(elements), 1, 1) / 2,
                     scattered_seconds = sums.Seconds(elements, SumPart::kScattered);
        CHECK(least <= scattered_seconds);
        CHECK(floor.gathered_over_scattered() * least <= sums.Seconds(elements, SumPart::kGathered));
        if (elements > 1'000'000 && least > 0.3 * scattered_seconds) ++sharp;
      }
    }
  }
  CHECK(known > 50);
  CHECK(sharp > 10);
}

TEST_CASE("nothing is known of sums over one device, or where cards are not known") {
  PlanningProblem problem = ManyDevices(3, 24);
  for (DeviceCost& device : problem.devices) device.network_cards = 2;
  CHECK(!SumFloor(problem, 1).knows());
  CHECK(SumFloor(problem, 2).knows());
  problem.devices[5].network_cards = 0;
  CHECK(!SumFloor(problem, 24).knows());
}

TEST_CASE("the floor is what a ring over hosts of one device takes") {
  PlanningProblem problem;
  std::vector<int> ends(8, 0), hosts(8);
  std::iota(hosts.begin(), hosts.end(), 0);
  for (int d = 0; d < 8; ++d) problem.devices.push_back({.name = "d", .host = d, .network_cards = 1});
  problem.links = DeviceLinks(ends, hosts, 1);
  const LinkModel link = LinkModel::Line(0, 1e6);
  problem.links.SetBetweenHosts(0, 0, {link, link});
  // Each takes in 2 * 7 / 8 of 4 MB, at 1 MB a second.
  CHECK(SumFloor(problem, 8).Seconds(1e6, 1, 1) == Approx(7).epsilon(1e-3));
  CHECK(AlikeRoutePredictor(problem).SumsOver(hosts).Seconds(1'000'000) == Approx(7).epsilon(1e-3));
  // Fewer take less.
  CHECK(SumFloor(problem, 2).Seconds(1e6, 1, 1) == Approx(4).epsilon(1e-3));
}

}  // namespace
}  // namespace medley
