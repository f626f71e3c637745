#include "coordinator/planner/classes/place_bound.h"

#include <catch2/catch.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/classes/parts_alone.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

constexpr double kKnownSeconds = 100;

// Devices of two kinds at two sites, joined by links of so many bytes a second.
PlanningProblem TwoSites(double bytes_per_second) {
  PlanningProblem problem = ManyDevices(3, 24);
  problem.shape.global_batch_sequences = 4000;
  std::vector<int> ends, hosts;
  for (DeviceCost& device : problem.devices) {
    device.network_cards = 1;
    device.site = device.kind == "kind 0" ? 0 : 1;
    ends.push_back(device.site);
    hosts.push_back(device.host);
  }
  problem.links = DeviceLinks(ends, hosts, 2);
  const LinkModel fast = LinkModel::Line(0, 1e12), between = LinkModel::Line(1e-3, bytes_per_second);
  for (const int site : {0, 1}) {
    problem.links.SetWithinHosts(site, site, {fast, fast});
    problem.links.SetBetweenHosts(site, site, {fast, fast});
  }
  problem.links.SetBetweenHosts(0, 1, {between, between});
  return problem;
}

double SequenceBytes(const PlanningProblem& problem) {
  return 4.0 * problem.shape.sequence * problem.shape.model.hidden;
}

TEST_CASE("nothing is faster than the best home, or than what sums over all sites take") {
  const PlanningProblem reference = TwoSites(1);
  const double summed_bytes = 4.0 * static_cast<double>(ModelElements(reference.shape.model));
  std::vector<int> batches;
  const auto bound = [&](double bytes_per_second, const std::vector<double>& at_homes) {
    batches.clear();
    return PlaceBoundSeconds(TwoSites(bytes_per_second), /*bound_seconds=*/0, kKnownSeconds,
                             [&](const PlanningProblem& home) {
                               for (const DeviceCost& device : home.devices)
                                 CHECK(device.site == home.devices[0].site);
                               batches.push_back(home.shape.global_batch_sequences);
                               return at_homes[home.devices[0].site];
                             });
  };
  // By so slow a way sums take more than 70 s, in which a few sequences cross.
  const double slow = summed_bytes / 70;
  CHECK(bound(slow, {50, 60}) == 50);
  CHECK(bound(slow, {60, 50}) == 50);
  REQUIRE(batches.size() == 2);
  const double crossing = kKnownSeconds * 2 * slow / (2 * SequenceBytes(reference));
  const int batch = reference.shape.global_batch_sequences;
  for (const int left : batches) {
    CHECK(left <= batch - crossing);
    CHECK(left > batch - crossing - 4);  // the largest micro-batch
    CHECK(left % 4 == 0);
  }
  CHECK(bound(slow, {90, 80}) == Approx(70).epsilon(0.002));
  CHECK(bound(slow, {90, 200}) == Approx(70).epsilon(0.002));
  CHECK(bound(summed_bytes / 1000, {500, 600}) == kKnownSeconds);
  CHECK(PlaceBoundSeconds(TwoSites(slow), /*bound_seconds=*/71, kKnownSeconds,
                          [](const PlanningProblem&) -> double {
                            FAIL("sums take less than what is known already");
                            return 0;
                          }) == 0);
  // So many cross that a home may have nothing to do.
  CHECK(bound(1e9, {50, 60}) == 0);
}

TEST_CASE("of one site its racks are bounded as sites are") {
  const auto bound = [](bool by_racks) {
    PlanningProblem problem = TwoSites(1e4);
    for (DeviceCost& device : problem.devices) {
      if (by_racks) std::swap(device.rack, device.site);
    }
    CHECK(Homes(problem).size() == 2);
    return PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds,
                             [](const PlanningProblem&) { return 1.0; });
  };
  CHECK(bound(true) > 0);
  CHECK(bound(true) == bound(false));
}

TEST_CASE("one of alike places tells what is known of all") {
  const PlanningProblem unlike = TwoSites(1e4);
  PlanningProblem problem = unlike;
  std::vector<int> ends, hosts;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    DeviceCost& device = problem.devices[d];
    device = unlike.devices[0];
    device.name = unlike.devices[d].name;
    device.processor = d;
    device.host = d / 2;
    device.site = d < 12 ? 0 : 1;
    ends.push_back(device.site);
    hosts.push_back(device.host);
  }
  problem.links = DeviceLinks(ends, hosts, 2);
  for (const int site : {0, 1}) {
    problem.links.SetWithinHosts(site, site, unlike.links.Between(0, 1));
    problem.links.SetBetweenHosts(site, site, unlike.links.Between(0, 1));
  }
  problem.links.SetBetweenHosts(0, 1, unlike.links.Between(0, 23));
  int asked = 0;
  const auto at_home = [&](const PlanningProblem&) {
    ++asked;
    return 1.0;
  };
  CHECK(PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds, at_home) == 1);
  CHECK(asked == 1);
}

TEST_CASE("of one site, or where messages may come in no time or share nothing, nothing is said") {
  const auto any = [](const PlanningProblem&) { return 1.0; };
  CHECK(PlaceBoundSeconds(TwoSites(1e4), /*bound_seconds=*/0, kKnownSeconds, any) == 1);
  PlanningProblem problem = TwoSites(1e4);
  for (DeviceCost& device : problem.devices) device.site = 0;
  CHECK(PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds, any) == 0);
  problem = TwoSites(1e4);
  problem.devices[5].network_cards = 0;
  CHECK(PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds, any) == 0);
  problem = TwoSites(1e4);
  LinkModel level = LinkModel::Line(1e-3, 1e4);
  level.points.insert(level.points.begin() + 1, {16, level.points.front().seconds});
  problem.links.SetBetweenHosts(0, 1, {level, level});
  CHECK(PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds, any) == 0);
  problem = TwoSites(std::numeric_limits<double>::infinity());
  CHECK(PlaceBoundSeconds(problem, /*bound_seconds=*/0, kKnownSeconds, any) == 0);
}

}  // namespace
}  // namespace medley
