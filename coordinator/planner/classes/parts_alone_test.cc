#include "coordinator/planner/classes/parts_alone.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/work_bound.h"

namespace medley {
namespace {

struct RackOf {
  int kind = 0, hosts = 1, on_host = 1;
  double bytes_per_second = 1e6;  // between hosts
};

// Racks of devices of kinds that differ in their times alone.
PlanningProblem InRacks(const std::vector<RackOf>& racks) {
  PlanningProblem problem = ManyDevices(3, 24);
  DeviceCost like = problem.devices.front();
  like.shares.clear();
  problem.devices.clear();
  std::vector<int> ends, hosts;
  int host = 0;
  for (size_t r = 0; r < racks.size(); ++r) {
    for (int h = 0; h < racks[r].hosts; ++h, ++host) {
      for (int d = 0; d < racks[r].on_host; ++d) {
        DeviceCost& device = problem.devices.emplace_back(like);
        device.name = absl::StrCat("r", r, "h", h, "/", d);
        device.kind = absl::StrCat("kind ", racks[r].kind);
        for (BlockTimes& times : device.times) times.layer.forward_seconds *= 1 + racks[r].kind;
        device.processor = static_cast<int>(hosts.size());
        device.host = host;
        device.rack = static_cast<int>(r);
        ends.push_back(device.rack);
        hosts.push_back(host);
      }
    }
  }
  problem.links = DeviceLinks(ends, hosts, static_cast<int>(racks.size()));
  const LinkModel within = LinkModel::Line(1e-5, 1e9), out = LinkModel::Line(1e-3, 1e5);
  for (int a = 0; a < static_cast<int>(racks.size()); ++a) {
    const LinkModel between = LinkModel::Line(1e-4, racks[a].bytes_per_second);
    problem.links.SetWithinHosts(a, a, {within, within});
    problem.links.SetBetweenHosts(a, a, {between, between});
    for (int b = 0; b < a; ++b) problem.links.SetBetweenHosts(a, b, {out, out});
  }
  return problem;
}

TEST_CASE("of racks and sites that are alike by themselves there is one home") {
  const RackOf rack = {.kind = 0, .hosts = 2, .on_host = 2};
  const RackOf other_kind = {.kind = 1, .hosts = 2, .on_host = 2}, other_hosts = {.hosts = 1, .on_host = 4},
               fewer = {.hosts = 1, .on_host = 2},
               slower = {.hosts = 2, .on_host = 2, .bytes_per_second = 1e5};
  CHECK(Homes(InRacks({rack})).empty());
  for (const bool by_site : {false, true}) {
    const auto homes = [&](const std::vector<RackOf>& racks) {
      PlanningProblem problem = InRacks(racks);
      for (DeviceCost& device : problem.devices) {
        if (by_site) std::swap(device.rack, device.site);
      }
      return Homes(problem).size();
    };
    CHECK(homes({rack, rack, rack, rack, rack}) == 1);
    for (const RackOf& other : {other_kind, other_hosts, fewer, slower}) {
      CHECK(homes({rack, other}) == 2);
      CHECK(homes({other, rack, other, rack}) == 2);
    }
    CHECK(homes({rack, other_kind, other_hosts, fewer, slower, rack}) == 5);
  }
}

TEST_CASE("a few homes and hosts are planned for alone, none like another, those done first before others") {
  // Hosts of racks of one kind are alike, and each rack has two.
  const RackOf first = {.kind = 0, .hosts = 2, .on_host = 2}, second = {.kind = 1, .hosts = 2, .on_host = 2};
  const std::vector<PlanningProblem> few = PartsAlone(InRacks({second, first, second, first}));
  REQUIRE(few.size() == 4);
  const auto kinds = [](const PlanningProblem& part) {
    return std::pair(part.devices.size(), part.devices.front().kind);
  };
  CHECK(kinds(few[0]) == std::pair(size_t{4}, std::string("kind 0")));
  CHECK(kinds(few[1]) == std::pair(size_t{4}, std::string("kind 1")));
  CHECK(kinds(few[2]) == std::pair(size_t{2}, std::string("kind 0")));
  CHECK(kinds(few[3]) == std::pair(size_t{2}, std::string("kind 1")));
  // A rack that is one host is planned for once.
  CHECK(PartsAlone(InRacks({{.hosts = 1, .on_host = 2}, {.hosts = 1, .on_host = 2}})).size() == 1);
  std::vector<RackOf> many;
  for (int kind = 5; kind >= 0; --kind) many.push_back({.kind = kind, .hosts = 2, .on_host = 2});
  const std::vector<PlanningProblem> parts = PartsAlone(InRacks(many));
  REQUIRE(parts.size() == 2 * kMostAlone);
  for (int p = 0; p < kMostAlone; ++p) {
    CHECK(kinds(parts[p]) == std::pair(size_t{4}, absl::StrCat("kind ", p)));
    CHECK(kinds(parts[kMostAlone + p]) == std::pair(size_t{2}, absl::StrCat("kind ", p)));
    if (p > 0) CHECK(WorkSeconds(parts[p - 1]) <= WorkSeconds(parts[p]));
  }
}

}  // namespace
}  // namespace medley
