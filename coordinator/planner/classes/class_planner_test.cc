#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

TEST_CASE("plans of many devices are valid, fit, and are predicted as whole ones are") {
  int planned = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 3) * 6);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    ++planned;
    INFO(found->summary);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(FitsMemory(problem, found->plan));
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.005));
    CHECK(found->lower_bound_seconds <= *whole);
    if (seed % 5 != 0) continue;
    const absl::StatusOr<PlanByClass> again = PlanByClasses(problem);
    REQUIRE(again.ok());
    CHECK(again->plan == found->plan);
  }
  CHECK(planned >= 20);
}

// The devices in another order, from both ends of the list of hosts.
PlanningProblem WithHostsInTurns(const PlanningProblem& problem) {
  std::vector<std::vector<int>> hosts;
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    if (d == 0 || problem.devices[d].host != problem.devices[d - 1].host) hosts.emplace_back();
    hosts.back().push_back(static_cast<int>(d));
  }
  std::vector<int> order;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::vector<int>& next = hosts[i % 2 == 0 ? i / 2 : hosts.size() - 1 - i / 2];
    order.insert(order.end(), next.begin(), next.end());
  }
  return OnDevices(problem, order);
}

TEST_CASE("where replicas share the optimizer's state plans are predicted as whole ones are") {
  int shared = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 24 + static_cast<int>(seed % 3) * 4);
    problem.constraints.saves_memory = true;
    for (DeviceCost& device : problem.devices) {
      device.network_cards = 1;
      device.update_seconds_per_parameter *= 300;
    }
    if (seed % 2 == 0) problem = WithHostsInTurns(problem);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    if (!found->plan.shards_optimizer) continue;
    ++shared;
    INFO(found->summary);
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.005));
  }
  CHECK(shared >= 4);
}

TEST_CASE(
    "messages that share the cards of hosts, or the way between sites, are predicted as in whole plans") {
  int planned = 0, slower = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 3) * 6);
    for (LinkCost& cost : problem.links.each()) {
      if (cost.transfer.BytesPerSecond() < 3e6)
        cost.transfer = LinkModel::Line(5e-3, cost.transfer.BytesPerSecond() / 30);
    }
    const PlanningProblem unshared = problem;
    for (DeviceCost& device : problem.devices) {
      device.network_cards = 1 + static_cast<int>(seed % 2);
      if (seed % 3 == 0) device.site = device.kind == "kind 0" ? 0 : 1;
    }
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    ++planned;
    INFO(found->summary);
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.01));
    CHECK(found->lower_bound_seconds <= *whole);
    slower += *whole > 1.02 * *PredictStepSeconds(unshared, found->plan);
  }
  CHECK(planned >= 20);
  CHECK(slower >= 3);
}

TEST_CASE("far more devices than micro-batches are planned for") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const int batch : {1, 4}) {
      PlanningProblem problem = ManyDevices(seed, 400);
      problem.shape.global_batch_sequences = batch;
      problem.micro_batch_sizes = {1};
      problem.constraints.saves_memory = false;
      for (DeviceCost& device : problem.devices) {
        device.room.memory = GiB(1);
        device.shares.clear();
        device.times.resize(1);
      }
      INFO("seed " << seed << ", batch " << batch);
      const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
      REQUIRE(found.status().ToString() == "OK");
      CHECK(static_cast<int>(found->plan.routes.size()) <= batch);
      CHECK(SequencesOf(found->plan) == batch);
      problem.constraints.most_devices = 1;
      const absl::StatusOr<PlanByClass> alone = PlanByClasses(problem);
      REQUIRE(alone.status().ToString() == "OK");
      CHECK(alone->plan.routes.size() == 1);
    }
  }
}

TEST_CASE("where ways between hosts are slow one host alone is planned for, too") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 24);
    problem.constraints.saves_memory = false;
    for (DeviceCost& device : problem.devices) {
      device.room.memory = GiB(1);
      device.shares.clear();
    }
    for (LinkCost& cost : problem.links.each()) {
      const LinkModel slow = LinkModel::Line(1, 1e2);
      if (cost.transfer.BytesPerSecond() < 3e6) cost = {slow, slow};
    }
    INFO("seed " << seed);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    REQUIRE(found.status().ToString() == "OK");
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.ok());
    CHECK(found->lower_bound_seconds <= *whole * (1 + 1e-9));
    std::map<int, std::vector<int>> hosts;
    for (size_t d = 0; d < problem.devices.size(); ++d)
      hosts[problem.devices[d].host].push_back(static_cast<int>(d));
    for (const auto& [host, devices] : hosts) {
      const absl::StatusOr<PlanByClass> alone = PlanByClasses(OnDevices(problem, devices));
      REQUIRE(alone.status().ToString() == "OK");
      INFO("host " << host);
      CHECK(*whole <= 1.02 * alone->step_seconds);
    }
  }
}

TEST_CASE("devices are of one class if they cost the same and reach others alike") {
  const PlanningProblem problem = ManyDevices(7, 24);
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  size_t kinds = 0, devices = 0;
  for (const DeviceClass& of : classes) {
    for (const std::vector<int>& host : of.hosts) {
      for (const int d : host) CHECK(problem.devices[d].kind == problem.devices[of.first()].kind);
    }
    devices += of.devices;
    ++kinds;
  }
  CHECK(devices == problem.devices.size());
  CHECK(kinds == static_cast<size_t>(problem.links.ends()));
}

TEST_CASE("stages have the embedding or the head alone where no device has room for a layer beside") {
  PlanningProblem problem = Alike(20, 1, 60);
  ModelConfig& model = problem.shape.model;
  model.hidden = 256;
  model.feed_forward = 1024;
  model.vocabulary = 2000;
  Plan plan;
  for (int s = 0; s < 3; ++s) plan.units.push_back({{problem.devices[s].name}, {{s, s + 1}}});
  plan.routes.push_back({{0, 1, 2}, 60, 1});
  Bytes most;
  for (Rank rank = 0; rank < 3; ++rank)
    most = std::max(most, MemoryOfRank(plan, rank, problem.shape).total());
  for (DeviceCost& device : problem.devices) {
    device.room.memory = most + KiB(64);
    device.times = {{{0.1, 0.2, 0.1}, {1, 2, 1}, {0.1, 0.2, 0.1}}};
  }
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(FitsMemory(problem, found->plan));
  for (const Route& route : found->plan.routes) CHECK(route.units.size() == 3);
  CHECK(found->lower_bound_seconds <= found->step_seconds);
}

TEST_CASE("stages that hold the same blocks share hosts where that saves sums between hosts") {
  PlanningProblem problem = Alike(16, 4, 64);
  problem.constraints.max_routes = 4;
  std::vector<int> ends(16, 0), hosts;
  for (int d = 0; d < 16; ++d) {
    problem.devices[d].host = d / 4;
    problem.devices[d].network_cards = 1;
    hosts.push_back(d / 4);
  }
  problem.links = DeviceLinks(ends, hosts, 1);
  // Messages, which then share cards, are small.
  problem.shape.sequence = 1;
  const LinkModel within = LinkModel::Line(0, 1e9), between = LinkModel::Line(0, 1e5);
  problem.links.SetWithinHosts(0, 0, {within, within});
  problem.links.SetBetweenHosts(0, 0, {between, between});
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  INFO(found->summary);
  CHECK(found->plan.routes.size() == 4);
  std::map<int, std::set<std::string>> hosts_of_block;
  for (const Unit& unit : found->plan.units) {
    const std::string& name = unit.devices[0];
    for (const DeviceCost& device : problem.devices) {
      if (device.name == name) hosts_of_block[unit.chunks[0].end.value()].insert(std::to_string(device.host));
    }
  }
  CHECK(hosts_of_block.size() == 4);
  for (const auto& [block, on] : hosts_of_block) CHECK(on.size() == 1);
}

TEST_CASE("a route that takes more devices than its class has is spread over classes that are as fast") {
  PlanningProblem problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  for (int d = 0; d < 20; ++d) problem.devices[d].price_per_hour = 1 + d % 2;  // nothing limits it
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx((40 + 19) * 3));
  CHECK(found->lower_bound_seconds <= (40 + 19) * 3);
  CHECK(found->lower_bound_seconds > 130);
}

// Hosts of two devices, each a class of its own, for links are known pair by pair; the slowest takes `slowest` times as long as
// the fastest. One device has no room for the embedding; two together do. What crosses hosts takes no time to speak of.
PlanningProblem UnlikeHosts(int hosts, double slowest) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 3, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 20000, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 8 * hosts;
  problem.micro_batch_sizes = {1, 2};
  for (int d = 0; d < 2 * hosts; ++d) {
    const double forward_seconds = 0.1 * (1 + (slowest - 1) * (d / 2) / hosts);
    DeviceCost device{.name = absl::StrCat("n", d / 2, "/gpu", d % 2),
                      .kind = slowest == 1 ? "kind" : absl::StrCat("kind ", d / 2),
                      .processor = d,
                      .host = d / 2,
                      .room = {.memory = MiB(16)}};
    ShareCost share{.share = AtOrigin(EvenShares(problem.shape.model, 2)[0]), .room = device.room};
    for (const int size : problem.micro_batch_sizes) {
      const double seconds = forward_seconds * size;
      share.times.push_back({{}, {seconds, 2 * seconds, seconds}, {}});
      device.times.push_back({{}, {2 * seconds, 4 * seconds, 2 * seconds}, {}});
    }
    device.shares.push_back(std::move(share));
    problem.devices.push_back(std::move(device));
  }
  problem.links = DeviceLinks(2 * hosts);
  const LinkModel between = LinkModel::Line(1e-6, 1e10), within = LinkModel::Line(1e-6, 1e11);
  for (LinkCost& link : problem.links.each()) link = {between, between};
  for (int host = 0; host < hosts; ++host) problem.links.Set(2 * host, 2 * host + 1, {within, within});
  return problem;
}

TEST_CASE("many classes of few devices each are all used") {
  const int hosts = GENERATE(9, 16);
  const double slowest = GENERATE(1.0, 2.0);
  CAPTURE(hosts, slowest);
  const PlanningProblem problem = UnlikeHosts(hosts, slowest);
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  INFO(found->summary);
  CHECK(FitsMemory(problem, found->plan));
  CHECK(found->plan.routes.size() > static_cast<size_t>(hosts / 2));
  CHECK(found->step_seconds < 1.1 * found->lower_bound_seconds);
}

TEST_CASE("plans keep within what devices may cost, and how many there may be") {
  int planned = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 18);
    INFO("seed " << seed);
    for (DeviceCost& device : problem.devices) device.price_per_hour = device.kind == "kind 0" ? 3 : 1;
    problem.constraints.most_price_per_hour = 15;
    problem.constraints.most_devices = 10;
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!found.ok()) continue;
    ++planned;
    int devices = 0;
    double price = 0;
    for (const Unit& unit : found->plan.units) {
      for (const std::string& name : unit.devices) {
        for (const DeviceCost& device : problem.devices)
          price += device.name == name ? device.price_per_hour : 0;
        ++devices;
      }
    }
    CHECK(devices <= 10);
    CHECK(price <= 15);
  }
  CHECK(planned >= 4);
}

TEST_CASE("planning that is stopped gives what it has, or says that it was stopped") {
  const PlanningProblem problem = ManyDevices(5, 24);
  const std::atomic<bool> stop = true;
  CHECK(absl::IsCancelled(PlanByClasses(problem, &stop).status()));
}

TEST_CASE("nothing that fits is said so") {
  PlanningProblem problem = ManyDevices(3, 18);
  for (DeviceCost& device : problem.devices) {
    device.room.memory = KiB(16);
    for (ShareCost& share : device.shares) share.room.memory = KiB(16);
  }
  const absl::Status status = PlanByClasses(problem).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("18 devices"));
  const absl::Status refused = ChoosePlan(problem).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("no plan fits the memory of 18 devices in ") &&
                                                 Catch::Contains("; of 16.0 KiB it needs ") &&
                                                 Catch::Contains(" more memory on every device"));
  problem.constraints.most_devices = 5;
  CHECK(ChoosePlan(problem).status().message() == "no plan fits on what constraints.most_devices allows, 5");
}

}  // namespace
}  // namespace medley
