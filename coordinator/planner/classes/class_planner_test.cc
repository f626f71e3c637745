#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/check_plan.h"
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
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.02));
    CHECK(found->lower_bound_seconds <= *whole);
    if (seed % 5 != 0) continue;
    const absl::StatusOr<PlanByClass> again = PlanByClasses(problem);
    REQUIRE(again.ok());
    CHECK(again->plan == found->plan);
  }
  CHECK(planned >= 20);
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
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.03));
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

// Then the search of few devices is all that they are planned by, if it ends.
PlanningProblem WithoutShares(PlanningProblem problem) {
  for (DeviceCost& device : problem.devices) device.shares.clear();
  return problem;
}

// Four devices under 1F1B, planned by the search alone and by classes.
struct FewDevices {
  explicit FewDevices(uint64_t seed) : problem(ManyDevices(seed, 4)) {
    problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
    searched = ChoosePlan(WithoutShares(problem));
    by_classes = PlanByClasses(problem);
  }
  bool planned() const { return searched.ok() && by_classes.ok(); }

  PlanningProblem problem;
  absl::StatusOr<ChosenPlan> searched;
  absl::StatusOr<PlanByClass> by_classes;
};

// Planned once: two cases look at the same ones.
const FewDevices& FewDevicesOf(uint64_t seed) {
  static auto* const known = new std::map<uint64_t, FewDevices>();
  return known->try_emplace(seed, seed).first->second;
}

TEST_CASE("of few devices plans by classes are nearly as fast as those of the whole search") {
  double sum = 0;
  int count = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    INFO("seed " << seed);
    const FewDevices& few = FewDevicesOf(seed);
    if (!few.planned()) continue;
    const absl::StatusOr<double> whole = PredictStepSeconds(few.problem, few.by_classes->plan);
    REQUIRE(whole.ok());
    CHECK(few.by_classes->lower_bound_seconds <= few.searched->step_seconds);
    const double slower = *whole / few.searched->step_seconds;
    CHECK(slower < 1.5);
    sum += slower;
    ++count;
  }
  REQUIRE(count >= 15);
  CHECK(sum / count < 1.1);
}

TEST_CASE("of few devices the faster of both is chosen, and units of several devices where they are faster") {
  int wide = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    INFO("seed " << seed);
    const FewDevices& few = FewDevicesOf(seed);
    if (!few.planned()) continue;
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(few.problem);
    REQUIRE(chosen.ok());
    const absl::StatusOr<double> seconds = PredictStepSeconds(few.problem, chosen->plan),
                                 of_classes = PredictStepSeconds(few.problem, few.by_classes->plan);
    REQUIRE((seconds.ok() && of_classes.ok()));
    CHECK(chosen->step_seconds == *seconds);
    CHECK(*seconds <= 1.006 * std::min(few.searched->step_seconds, *of_classes));
    CHECK(chosen->lower_bound_seconds <= *seconds);
    CHECK(FitsMemory(few.problem, chosen->plan));
    if (*seconds >= few.searched->step_seconds) continue;
    CHECK_FALSE(chosen->proven_optimal);
    if (std::any_of(chosen->plan.units.begin(), chosen->plan.units.end(),
                    [](const Unit& unit) { return unit.devices.size() > 1; }))
      ++wide;
  }
  CHECK(wide >= 3);
}

TEST_CASE("no plan of the whole search is before the bound where sums take long") {
  int count = 0, longer = 0;
  for (uint64_t seed = 300; seed < 330; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 3 + static_cast<int>(seed % 3));
    problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
    problem.shape.global_batch_sequences = 8;
    for (DeviceCost& device : problem.devices) device.network_cards = 1 + static_cast<int>(seed % 2);
    // Sums over hosts take as long as a step, and messages little of it.
    const LinkModel slow = LinkModel::Line(1e-3, 3e4 * static_cast<double>(1 + seed % 7));
    for (int a = 0; a < problem.links.ends(); ++a) {
      for (int b = 0; b <= a; ++b) problem.links.SetBetweenHosts(a, b, {slow, slow});
    }
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<ChosenPlan> best = ChoosePlan(WithoutShares(problem));
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!best.ok() || !found.ok()) continue;
    ++count;
    CHECK(found->lower_bound_seconds <= best->step_seconds);
    // The same without sums, which is a bound, too.
    for (DeviceCost& device : problem.devices) device.network_cards = 0;
    const absl::StatusOr<PlanByClass> without = PlanByClasses(problem);
    REQUIRE(without.ok());
    if (without->lower_bound_seconds < 0.98 * found->lower_bound_seconds) ++longer;
  }
  CHECK(count >= 18);
  CHECK(longer >= 1);
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

// Alike devices that are hosts of their own; a layer takes a second forward and two backward, all else nothing.
PlanningProblem Alike(int devices, int layers, int batch) {
  PlanningProblem problem = ManyDevices(1, devices);
  problem.shape.model.layers = layers;
  problem.shape.global_batch_sequences = batch;
  problem.micro_batch_sizes = {1};
  problem.constraints.saves_memory = false;
  std::vector<int> ends(devices, 0), hosts;
  for (int d = 0; d < devices; ++d) {
    DeviceCost& device = problem.devices[d];
    device.kind = "alike";
    device.host = d;
    device.room.memory = GiB(1);
    device.shares.clear();
    device.times = {{{}, {1, 2, 1}, {}}};
    device.update_seconds_per_parameter = 0;
    device.network_cards = 0;
    hosts.push_back(d);
  }
  problem.links = DeviceLinks(ends, hosts, 1);
  const LinkModel link = LinkModel::Line(0, 1e15);
  problem.links.SetBetweenHosts(0, 0, {link, link});
  return problem;
}

TEST_CASE("the lower bound is near what cannot be done faster") {
  // 20 replicas of one device, three micro-batches of 4 layers each.
  PlanningProblem problem = Alike(20, 4, 60);
  absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(36));
  CHECK(found->lower_bound_seconds <= 36);
  CHECK(found->lower_bound_seconds > 0.98 * 36);
  // One route of all: 40 micro-batches on their way through 20 stages of 3 seconds. All 20 would be busy for 120.
  problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx((40 + 19) * 3));
  CHECK(found->lower_bound_seconds <= (40 + 19) * 3);
  CHECK(found->lower_bound_seconds > 130);
}

TEST_CASE("where other schedules are allowed, too, it is said that the lower bound is one under 1F1B") {
  PlanningProblem problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  const absl::StatusOr<ChosenPlan> any = ChoosePlan(problem);
  REQUIRE(any.status().ToString() == "OK");
  CHECK(any->lower_bound_seconds > 130);
  CHECK(any->bound_under_1f1b_alone);
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  const absl::StatusOr<ChosenPlan> only = ChoosePlan(problem);
  REQUIRE(only.status().ToString() == "OK");
  CHECK_FALSE(only->bound_under_1f1b_alone);
  // Nobody is done before all have computed, in whatever order.
  const absl::StatusOr<ChosenPlan> busy = ChoosePlan(Alike(20, 4, 60));
  REQUIRE(busy.status().ToString() == "OK");
  CHECK(busy->lower_bound_seconds == Approx(36));
  CHECK_FALSE(busy->bound_under_1f1b_alone);
}

TEST_CASE("the lower bound is one of routes with more stages than are searched, too") {
  // As above, with more layers and devices than a route has stages that are looked at.
  PlanningProblem problem = Alike(60, 60, 120);
  problem.constraints.max_routes = 1;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds >= found->lower_bound_seconds);
  CHECK(found->lower_bound_seconds <= (120 + 59) * 3);
  CHECK(found->lower_bound_seconds >= 0.99 * 120 * 3);
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

TEST_CASE("the lower bound has what sums of gradients take") {
  // 20 replicas of one device: three micro-batches of 4 layers, and then sums that the last backward, of 8 seconds, hides
  // a part of.
  PlanningProblem problem = Alike(20, 4, 60);
  const LinkModel link = LinkModel::Line(0, 1e5);
  problem.links.SetBetweenHosts(0, 0, {link, link});
  for (DeviceCost& device : problem.devices) device.network_cards = 1;
  problem.constraints.max_stages = 1;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds > 36 + 10);
  CHECK(found->lower_bound_seconds <= found->step_seconds);
  CHECK(found->lower_bound_seconds > 42);
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

TEST_CASE("stages that would wait for gradients make those of weights meanwhile") {
  // 40 micro-batches on their way through 20 stages of a second forward, one for the gradient of the input and one for the weights'.
  PlanningProblem problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  problem.constraints.synthesised_orders = true;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  INFO(found->orders);
  CHECK(found->named_step_seconds == Approx((40 + 19) * 3));
  // No stage can do without its own work and the forwards that lead to it.
  CHECK(found->step_seconds >= 40 * 3 + 19);
  CHECK(found->step_seconds < 40 * 3 + 19 * 2);
  CHECK(found->busy_seconds == Approx(40 * 3));
  const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
  REQUIRE(whole.ok());
  CHECK(*whole == Approx(found->step_seconds));
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

// Of more layers than devices hold, whose copies take as long as computing with so many bytes a second.
PlanningProblem TooManyLayers(double copied_bytes_per_second) {
  PlanningProblem problem = Alike(18, 90, 36);
  problem.constraints.saves_memory = true;
  for (DeviceCost& device : problem.devices) {
    device.room.memory = KiB(3500);
    device.update_seconds_per_parameter = 1e-6;
    device.norm_seconds_per_parameter = 2e-7;
    device.fetch_bytes_per_second = copied_bytes_per_second;
    device.store_bytes_per_second = 1.5 * copied_bytes_per_second;
    device.host_memory = MiB(8);
  }
  return problem;
}

std::string Objections(const PlanningProblem& problem, const Plan& plan) {
  std::string text;
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    text += violation.detail + "; ";
  return text;
}

TEST_CASE("where nothing fits otherwise layers live in host memory") {
  for (const double bytes_per_second : {1e7, 3e5, 1e5}) {
    INFO(bytes_per_second << " bytes a second");
    const PlanningProblem problem = TooManyLayers(bytes_per_second);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    REQUIRE(found.status().ToString() == "OK");
    INFO(found->summary);
    CHECK(Objections(problem, found->plan).empty());
    CHECK(FitsMemory(problem, found->plan));
    const auto on_host = std::count_if(found->plan.units.begin(), found->plan.units.end(),
                                       [](const Unit& unit) { return unit.lives_on_host(); });
    CHECK(on_host > 0);
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.05));
    CHECK(found->lower_bound_seconds <= *whole);
    CHECK(found->lower_bound_seconds > 0);
    const absl::StatusOr<PlanByClass> again = PlanByClasses(problem);
    REQUIRE(again.ok());
    CHECK(again->plan == found->plan);
  }
}

TEST_CASE("plans of many devices with layers in host memory are valid and are predicted as whole ones are") {
  int planned = 0, replicas = 0, shared = 0;
  for (uint64_t seed = 3; seed <= 12; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 2) * 6);
    problem.constraints.saves_memory = true;
    problem.shape.model.layers = 36 + static_cast<int>(seed % 7) * 8;
    problem.shape.global_batch_sequences = 32;
    for (DeviceCost& device : problem.devices) {
      const bool first_kind = device.kind == "kind 0";
      device.room.memory = KiB(2600 + 300 * static_cast<int>(seed % 4) + (first_kind ? 400 : 0));
      for (ShareCost& share : device.shares) share.room.memory = device.room.memory;
      device.fetch_bytes_per_second = first_kind ? 1e6 : 4e5;
      device.store_bytes_per_second = first_kind ? 7e5 : 6e5;
      device.norm_seconds_per_parameter = 2e-8;
      device.host_memory = MiB(40);
    }
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    if (std::none_of(found->plan.units.begin(), found->plan.units.end(),
                     [](const Unit& unit) { return unit.lives_on_host(); }))
      continue;
    ++planned;
    replicas += found->plan.routes.size() > 1 ? 1 : 0;
    shared += std::any_of(found->plan.units.begin(), found->plan.units.end(),
                          [](const Unit& unit) { return unit.lives_on_host() && unit.devices.size() > 1; });
    INFO(found->summary);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(Objections(problem, found->plan) == "");
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.03));
    CHECK(found->lower_bound_seconds <= *whole);
  }
  CHECK(planned >= 5);
  CHECK(replicas >= 2);
  CHECK(shared >= 2);
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

// Every unit of `units` a replica of the whole model, with micro-batches of `size` sequences dealt to whoever is done first.
// `seconds`: what a unit takes of one. None: there are fewer micro-batches than replicas.
std::optional<Plan> Replicas(const PlanningProblem& problem, const std::vector<std::vector<int>>& units,
                             const std::vector<double>& seconds, int size) {
  const int micro_batches = problem.shape.global_batch_sequences / size;
  if (problem.shape.global_batch_sequences % size != 0 || micro_batches < static_cast<int>(units.size()))
    return std::nullopt;
  std::vector<int> counts(units.size());
  for (int m = 0; m < micro_batches; ++m) {
    size_t soonest = 0;
    for (size_t u = 1; u < units.size(); ++u) {
      if ((counts[u] + 1) * seconds[u] < (counts[soonest] + 1) * seconds[soonest]) soonest = u;
    }
    ++counts[soonest];
  }
  Plan plan;
  for (size_t u = 0; u < units.size(); ++u) {
    if (counts[u] == 0) continue;
    Unit unit{.chunks = {{0, problem.shape.model.blocks()}}};
    for (const int device : units[u]) unit.devices.push_back(problem.devices[device].name);
    plan.routes.push_back({.units = {static_cast<int>(plan.units.size())},
                           .micro_batches = counts[u],
                           .micro_batch_sequences = size});
    plan.units.push_back(std::move(unit));
  }
  return plan;
}

// The least that replicas of single devices, or of those of a host, take, if they fit.
double SimpleReplicasSeconds(const PlanningProblem& problem, AlikeRoutePredictor& predictor) {
  double least = std::numeric_limits<double>::infinity();
  std::map<int, std::vector<int>> hosts;
  std::vector<std::vector<int>> alone, whole;
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    alone.push_back({d});
    hosts[problem.devices[d].host].push_back(d);
  }
  for (const auto& [host, devices] : hosts) whole.push_back(devices);
  for (const auto& units : {alone, whole}) {
    for (size_t index = 0; index < problem.micro_batch_sizes.size(); ++index) {
      std::vector<double> seconds;
      for (const std::vector<int>& devices : units) {
        const DeviceCost& device = problem.devices[devices[0]];
        const ModelShare share =
            AtOrigin(EvenShares(problem.shape.model, static_cast<int>(devices.size()))[0]);
        const auto shared = std::find_if(device.shares.begin(), device.shares.end(),
                                         [&](const ShareCost& cost) { return cost.share == share; });
        if (devices.size() > 1 && shared == device.shares.end()) break;
        const BlockTimes& times = devices.size() > 1 ? shared->times[index] : device.times[index];
        seconds.push_back(times.embedding.Seconds() + times.head.Seconds() +
                          problem.shape.model.layers * times.layer.Seconds());
      }
      if (seconds.size() < units.size()) continue;
      const std::optional<Plan> plan = Replicas(problem, units, seconds, problem.micro_batch_sizes[index]);
      if (!plan || !FitsMemory(problem, *plan)) continue;
      const auto predicted = predictor.Predict(*plan);
      if (predicted.ok()) least = std::min(least, *predicted);
    }
  }
  return least;
}

// The same links pair by pair: then hosts are classes of their own, however alike they are.
void TellHostsApart(PlanningProblem& problem) {
  const auto devices = static_cast<int>(problem.devices.size());
  DeviceLinks links(devices);
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < a; ++b) links.Set(a, b, problem.links.Between(a, b));
  }
  problem.links = std::move(links);
}

TEST_CASE("no simple plan of replicas is faster by much") {
  int compared = 0;
  for (uint64_t seed = 200; seed < 250; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 18 + static_cast<int>(seed % 3) * 6);
    if (seed % 2 == 0) TellHostsApart(problem);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!found.ok()) continue;
    AlikeRoutePredictor predictor(problem);
    const double simple = SimpleReplicasSeconds(problem, predictor);
    if (!(simple < 1e30)) continue;
    ++compared;
    INFO("seed " << seed << ", " << found->summary);
    CHECK(found->step_seconds <= 1.05 * simple);
  }
  CHECK(compared > 10);
}

TEST_CASE("layers live in host memory only where that is allowed, measured, and there is enough of it") {
  PlanningProblem problem = TooManyLayers(1e7);
  problem.constraints.saves_memory = false;
  CHECK(absl::IsResourceExhausted(PlanByClasses(problem).status()));
  problem = TooManyLayers(0);
  CHECK(absl::IsResourceExhausted(PlanByClasses(problem).status()));
  problem = TooManyLayers(1e7);
  for (DeviceCost& device : problem.devices) device.host_memory = MiB(2);
  const absl::Status status = ChoosePlan(problem).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("with more host memory than the 2.0 MiB that "));
}

// Twenty devices near each other and four of another kind, far from them but not from each other.
PlanningProblem NearAndFar(const LinkModel& between) {
  PlanningProblem problem = Alike(24, 4, 80);
  std::vector<int> ends, hosts;
  for (int d = 0; d < 24; ++d) {
    ends.push_back(d < 20 ? 0 : 1);
    hosts.push_back(d);
    problem.devices[d].kind = d < 20 ? "near" : "far";
  }
  problem.links = DeviceLinks(ends, hosts, 2);
  const LinkModel fast = LinkModel::Line(0, 1e15);
  problem.links.SetBetweenHosts(0, 0, {fast, fast});
  problem.links.SetBetweenHosts(1, 1, {fast, fast});
  problem.links.SetBetweenHosts(1, 0, {between, between});
  return problem;
}

TEST_CASE("devices behind slow links are left out where sums over them cost more than they do") {
  const PlanningProblem problem = NearAndFar(LinkModel::Line(50, 1e15));
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(48));  // four micro-batches of 12 seconds on 20 devices
}

TEST_CASE("what a site far away cannot help with is no part of the bound") {
  // Sums over both sites take longer than a step at one.
  const double elements = static_cast<double>(ModelElements(Alike(24, 4, 80).shape.model));
  PlanningProblem problem = NearAndFar(LinkModel::Line(0, 4 * elements / 200));
  for (int d = 0; d < 24; ++d) {
    problem.devices[d].host = d;
    problem.devices[d].site = d < 20 ? 0 : 1;
    problem.devices[d].network_cards = 1;
  }
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(48));  // four micro-batches of 12 seconds on 20 devices
  // Few sequences can cross, and less than a micro-batch for each device is none.
  CHECK(found->lower_bound_seconds > 46);
  CHECK(found->lower_bound_seconds <= found->step_seconds);
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
