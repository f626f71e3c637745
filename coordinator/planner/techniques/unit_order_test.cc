#include "coordinator/planner/techniques/unit_order.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/uniform_problem.h"

namespace medley {
namespace {

// Two kinds of devices, two on each host, a model of four layers whose embedding is the most of it.
PlanningProblem TwoKinds() {
  PlanningProblem problem = Uniform(8, 4, 8);
  problem.shape.model.vocabulary = 200'000;
  std::vector<int> ends, hosts;
  for (int d = 0; d < 8; ++d) {
    ends.push_back(d / 4);
    hosts.push_back(d / 2);
    problem.devices[d].host = d / 2;
    problem.devices[d].network_cards = 1;
  }
  problem.links = DeviceLinks(ends, hosts, 2);
  const LinkModel within = LinkModel::Line(0, 1e9), between = LinkModel::Line(0, 1e6);
  for (int a = 0; a < 2; ++a) {
    problem.links.SetWithinHosts(a, a, {within, within});
    for (int b = 0; b <= a; ++b) problem.links.SetBetweenHosts(a, b, {between, between});
  }
  return problem;
}

// Four routes, each of a device of the first kind and one of the second, that share the optimizer's state.
Plan FourPipelines(const PlanningProblem& problem) {
  Plan plan{.shards_optimizer = true};
  for (int r = 0; r < 4; ++r) {
    plan.units.push_back({.devices = {problem.devices[r].name}, .chunks = {{0, 3}}});
    plan.units.push_back({.devices = {problem.devices[4 + r].name}, .chunks = {{3, 6}}});
    plan.routes.push_back({{2 * r, 2 * r + 1}, problem.shape.global_batch_sequences / 4, 1});
  }
  return plan;
}

TEST_CASE("units of a host are numbered behind each other, and routes pass the same devices") {
  const PlanningProblem problem = TwoKinds();
  const Plan plan = FourPipelines(problem), by_host = WithUnitsByHost(problem, plan);
  std::vector<std::string> names;
  for (const DeviceCost& device : problem.devices) names.push_back(device.name);
  CHECK(DevicesOf(by_host) == names);
  REQUIRE(by_host.routes.size() == 4);
  for (int r = 0; r < 4; ++r) {
    CHECK(by_host.routes[r].micro_batches == plan.routes[r].micro_batches);
    for (int s = 0; s < 2; ++s) CHECK(by_host.units[by_host.routes[r].units[s]] == plan.units[2 * r + s]);
  }
  CHECK(WithUnitsByHost(problem, by_host) == by_host);
}

TEST_CASE("a plan that shares nothing keeps its numbers") {
  const PlanningProblem problem = TwoKinds();
  Plan plan = FourPipelines(problem);
  plan.shards_optimizer = false;
  CHECK(WithUnitsByHost(problem, plan) == plan);
}

TEST_CASE("kinds lie side by side, in whatever order their hosts are, with one unit on each or several") {
  const PlanningProblem by_kind = TwoKinds();
  // Hosts of the two kinds in turns.
  PlanningProblem in_turns = OnDevices(by_kind, {0, 1, 4, 5, 2, 3, 6, 7});
  const Plan plan = FourPipelines(by_kind);
  const std::vector<std::string> expected = {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};
  CHECK(DevicesOf(WithUnitsByHost(in_turns, plan)) == expected);
  for (size_t d = 0; d < in_turns.devices.size(); ++d) in_turns.devices[d].host = static_cast<int>(d);
  CHECK(DevicesOf(WithUnitsByHost(in_turns, plan)) == expected);
}

TEST_CASE("of hosts of a kind the largest come first") {
  PlanningProblem problem = Uniform(6, 4, 6);
  const std::vector<int> hosts = {0, 0, 1, 1, 1, 1};
  for (int d = 0; d < 6; ++d) {
    problem.devices[d].host = hosts[d];
    problem.devices[d].network_cards = 1;
  }
  problem.links = DeviceLinks(std::vector<int>(6, 0), hosts, 1);
  const LinkModel within = LinkModel::Line(0, 1e9), between = LinkModel::Line(0, 1e3);
  problem.links.SetWithinHosts(0, 0, {within, within});
  problem.links.SetBetweenHosts(0, 0, {between, between});
  Plan plan = Replicas(6, {1, 1, 1, 1, 1, 1});
  plan.shards_optimizer = true;
  const Plan by_host = WithUnitsByHost(problem, plan);
  CHECK(DevicesOf(by_host) == std::vector<std::string>{"d2", "d3", "d4", "d5", "d0", "d1"});
  // The first four make two pairs, so that who is left halves with one of the same host first.
  const absl::StatusOr<double> as_listed = PredictStepSeconds(problem, plan),
                               seconds = PredictStepSeconds(problem, by_host);
  REQUIRE(as_listed.status().ToString() == "OK");
  REQUIRE(seconds.status().ToString() == "OK");
  CHECK(*seconds < 0.98 * *as_listed);
}

TEST_CASE("what first and last stages share is halved within hosts first") {
  const PlanningProblem problem = TwoKinds();
  const Plan plan = FourPipelines(problem);
  const absl::StatusOr<double> by_route = PredictStepSeconds(problem, plan),
                               by_host = PredictStepSeconds(problem, WithUnitsByHost(problem, plan));
  REQUIRE(by_route.status().ToString() == "OK");
  REQUIRE(by_host.status().ToString() == "OK");
  CHECK(*by_host < 0.98 * *by_route);
}

}  // namespace
}  // namespace medley
