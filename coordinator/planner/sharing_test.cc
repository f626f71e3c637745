#include "coordinator/planner/techniques/sharing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/faster_shares.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Devices of `hosts` by kind, a layer of which takes a second a window on "a" and three on "b". No device
// holds the embedding of the model by itself; two do.
PlanningProblem LargeModel(const std::vector<std::vector<std::string>>& hosts) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 4, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 20000, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 4;
  problem.micro_batch_sizes = {1, 2};
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (const std::string& kind : hosts[h]) {
      DeviceCost& device = problem.devices.emplace_back();
      device.name = absl::StrCat("n", h, "/", kind, problem.devices.size());
      device.kind = kind;
      device.processor = static_cast<int>(problem.devices.size());
      device.host = static_cast<int>(h);
      device.room.memory = MiB(16);
      const double seconds = kind == "a" ? 1 : 3;
      for (const int size : problem.micro_batch_sizes)
        device.times.push_back({{}, {seconds * size, 2 * seconds * size, seconds * size}, {}});
    }
  }
  const size_t count = problem.devices.size();
  problem.links = DeviceLinks(static_cast<int>(count));
  for (LinkCost& link : problem.links.each()) link = {LinkModel::Line(1e-5, 1e9), LinkModel::Line(1e-5, 1e9)};
  return problem;
}

// Each device takes its part of the feed-forward columns' time.
void Measure(PlanningProblem& problem, const std::vector<WantedShare>& shares) {
  for (const WantedShare& wanted : shares) {
    DeviceCost& device = problem.devices[wanted.device];
    ShareCost cost{.share = wanted.share, .room = device.room, .times = device.times};
    const double part = wanted.share.feed_forward.size() / 256.0;
    for (BlockTimes& times : cost.times) {
      times.layer.forward_seconds *= part;
      times.layer.backward_seconds *= part;
      times.layer.weight_gradient_seconds *= part;
    }
    device.shares.push_back(cost);
  }
}

int MeasureAll(PlanningProblem& problem) {
  int rounds = 0;
  for (std::vector<WantedShare> wanted; !(wanted = SharesToMeasure(problem)).empty(); ++rounds) {
    REQUIRE(rounds < 10);
    Measure(problem, wanted);
  }
  return rounds;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem))) {
    CAPTURE(violation.detail);
    CHECK(false);
  }
}

TEST_CASE("shares by speed are whole heads, columns and rows, none empty, near the speeds") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    ModelConfig config = {.layers = 1,
                          .hidden = 64,
                          .heads = 4 + trial % 13,
                          .feed_forward = 100 + trial * 7,
                          .vocabulary = 50 + trial * 111,
                          .context = 8};
    std::vector<double> speeds(2 + trial % 3);
    for (double& speed : speeds) speed = std::uniform_real_distribution<double>(0.01, 10)(random);
    const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    const std::vector<ModelShare> shares = SharesBySpeed(config, speeds);
    REQUIRE(shares.size() == speeds.size());
    int heads = 0, columns = 0, rows = 0;
    for (size_t m = 0; m < shares.size(); ++m) {
      CHECK(shares[m].key_value_heads.first == heads);
      CHECK(shares[m].feed_forward.first == columns);
      CHECK(shares[m].vocabulary.first == rows);
      for (const IndexRange& range :
           {shares[m].key_value_heads, shares[m].feed_forward, shares[m].vocabulary})
        CHECK(range.size() > 0);
      CHECK(std::abs(shares[m].vocabulary.size() - config.vocabulary * speeds[m] / sum) < 40);
      heads = shares[m].key_value_heads.end;
      columns = shares[m].feed_forward.end;
      rows = shares[m].vocabulary.end;
    }
    CHECK(heads == config.heads);
    CHECK(columns == config.feed_forward);
    CHECK(rows == config.vocabulary);
  }
}

TEST_CASE("more ranks than key-value heads share these by speed, among those that share one") {
  const ModelConfig config = {.layers = 2,
                              .hidden = 64,
                              .heads = 16,
                              .feed_forward = 120,
                              .vocabulary = 60,
                              .context = 8,
                              .family = ModelFamily::kLlama,
                              .key_value_heads = 2,
                              .head_size = 4};
  const std::vector<ModelShare> shares = SharesBySpeed(config, {3, 1, 1, 1});
  const std::vector<IndexRange> heads = {{0, 6}, {6, 8}, {8, 12}, {12, 16}},
                                columns = {{0, 60}, {60, 80}, {80, 100}, {100, 120}};
  for (int member = 0; member < 4; ++member) {
    CAPTURE(member);
    CHECK(shares[member].query_heads == heads[member]);
    CHECK(shares[member].key_value_heads == IndexRange{});
    CHECK(shares[member].feed_forward == columns[member]);
    CHECK(AttendAlike(config, heads[member]));
  }
}

TEST_CASE("units are of one host, of devices alike as far as there are") {
  const PlanningProblem problem = LargeModel({{"a", "b", "a", "b", "a"}, {"b", "a"}, {"a"}});
  const std::vector<SharedUnit> units = UnitsOfDegree(problem, 2, Sharing::kBySpeed);
  REQUIRE(units.size() == 3);
  CHECK(units[0].devices == std::vector<int>{0, 2});
  CHECK(units[1].devices == std::vector<int>{1, 3});
  CHECK(units[2].devices == std::vector<int>{5, 6});
  // Nothing is known of how fast they are with even shares.
  for (const SharedUnit& unit : units) CHECK(unit.shares == EvenShares(problem.shape.model, 2));
  CHECK(UnitsOfDegree(problem, 3, Sharing::kEven).size() == 1);
  CHECK(UnitsOfDegree(problem, 5, Sharing::kEven).empty());  // four heads
  CHECK(MostDevicesOfHost(problem) == 5);
}

TEST_CASE("where nothing fits with one device a unit, alike devices of a host share blocks evenly") {
  PlanningProblem problem = LargeModel({{"a", "a"}, {"a", "a"}});
  const auto none = ChoosePlan(problem);
  REQUIRE(absl::IsResourceExhausted(none.status()));
  CHECK_THAT(
      std::string(none.status().message()),
      Catch::Contains("lacks ") &&
          Catch::Contains("it may fit in units of 2 devices of a host, but these have not been measured"));
  CHECK_FALSE(FitsWithoutSharing(problem));
  const std::vector<WantedShare> wanted = SharesToMeasure(problem);
  REQUIRE(wanted.size() == 4);
  for (const WantedShare& share : wanted)
    CHECK(share.share == AtOrigin(EvenShares(problem.shape.model, 2)[0]));
  CHECK(MeasureAll(problem) == 1);

  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  CHECK_FALSE(chosen->proven_optimal);
  CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
  CHECK_THAT(chosen->fitting, Catch::Contains("nothing fits with one device a unit") &&
                                  Catch::Contains("2 a unit") && Catch::Contains("were not searched"));
  for (const Unit& unit : chosen->plan.units) {
    CHECK(unit.devices.size() == 2);
    CHECK(unit.shares.empty());
  }
  // Two replicas of one unit each, of two windows: half of 4 * 4 * 3 / 2 seconds.
  CHECK(chosen->step_seconds < 12 * 1.2);
  const auto explanation = ExplainAndCompare(problem, chosen->plan);
  REQUIRE(explanation.status().ToString() == "OK");
  CHECK(explanation->rejected.size() == 6);
}

TEST_CASE("the devices of units are counted and priced one by one") {
  PlanningProblem problem = LargeModel({{"a", "a"}, {"a", "a"}});
  MeasureAll(problem);
  for (DeviceCost& device : problem.devices) device.price_per_hour = 1.5;
  const auto free = ChoosePlan(problem);
  REQUIRE(free.ok());
  CHECK(DevicesOf(free->plan).size() == 4);
  CHECK(PricePerHour(problem, free->plan) == 6);
  problem.constraints.most_devices = 3;
  const auto fewer = ChoosePlan(problem);
  REQUIRE(fewer.ok());
  CheckValid(problem, fewer->plan);
  CHECK(DevicesOf(fewer->plan).size() == 2);
  problem.constraints = {.most_price_per_hour = 5.9};
  const auto cheaper = ChoosePlan(problem);
  REQUIRE(cheaper.ok());
  CHECK(PricePerHour(problem, cheaper->plan) == 3);
  problem.constraints = {.most_price_per_hour = 2.9};
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
  problem.constraints = {.most_devices = 1};
  const absl::Status refused = ChoosePlan(problem).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(refused.message() == "no plan fits on what constraints.most_devices allows, 1");
}

TEST_CASE("a pipeline of units of several devices gets an order, too") {
  PlanningProblem problem = LargeModel({{"a", "a"}, {"b", "b"}});
  problem.shape.global_batch_sequences = 8;
  problem.constraints.max_routes = 1;
  MeasureAll(problem);
  const auto named = ChoosePlan(problem);
  REQUIRE(named.status().ToString() == "OK");
  REQUIRE(named->plan.units.size() == 2);
  problem.constraints.synthesised_orders = true;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(chosen->plan.schedule == Schedule::kListed);
  CheckValid(problem, chosen->plan);
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  CHECK(chosen->step_seconds < named->step_seconds);
  CHECK_FALSE(chosen->fitting.empty());
  CHECK_FALSE(chosen->orders.empty());
}

TEST_CASE("unlike devices share by measured speed, if that fits and is faster") {
  PlanningProblem problem = LargeModel({{"a", "b"}});
  // By speed the faster one would have more of the embedding than it holds: that is not measured.
  CHECK(MeasureAll(problem) == 1);
  const auto even = ChoosePlan(problem);
  REQUIRE(even.status().ToString() == "OK");
  REQUIRE(even->plan.units.size() == 1);
  CHECK(even->plan.units[0].shares.empty());
  CHECK(even->step_seconds > 4 * 4 * 4.5);
  for (DeviceCost& device : problem.devices) {
    device.room.memory = MiB(18);  // still too little for the embedding
    for (ShareCost& share : device.shares) share.room.memory = MiB(18);
  }
  problem.devices[0].room.memory = MiB(19);
  for (ShareCost& share : problem.devices[0].shares) share.room.memory = MiB(19);
  REQUIRE_FALSE(FitsWithoutSharing(problem));
  CHECK(MeasureAll(problem) == 1);
  const auto by_speed = ChoosePlan(problem);
  REQUIRE(by_speed.status().ToString() == "OK");
  REQUIRE(by_speed->plan.units[0].shares.size() == 2);
  CHECK(by_speed->plan.units[0].shares[0].feed_forward.size() == 192);
  CHECK(by_speed->step_seconds < 4 * 4 * 3 * 0.75 * 1.1);
  CheckValid(problem, by_speed->plan);
}

TEST_CASE("the fewest devices a unit with which something fits are taken") {
  PlanningProblem problem = LargeModel({{"a", "a", "a", "a"}});
  for (DeviceCost& device : problem.devices) device.room.memory = MiB(8);
  const std::vector<WantedShare> wanted = SharesToMeasure(problem);
  REQUIRE_FALSE(wanted.empty());
  const int degree = static_cast<int>(wanted.size()) == 3 ? 3 : 4;
  MeasureAll(problem);
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(static_cast<int>(chosen->plan.units[0].devices.size()) == degree);
  CheckValid(problem, chosen->plan);
  for (DeviceCost& device : problem.devices) device.room.memory = MiB(2);
  CHECK(SharesToMeasure(problem).empty());
  // What would fit if memory were saved is asked for as well, up to what fits without.
  for (DeviceCost& device : problem.devices) {
    device.room.memory = MiB(8);
    device.shares.clear();
  }
  problem.constraints.saves_memory = true;
  std::set<int> columns;
  while (!SharesToMeasure(problem).empty()) {
    for (const WantedShare& share : SharesToMeasure(problem)) columns.insert(share.share.feed_forward.size());
    Measure(problem, SharesToMeasure(problem));
  }
  CHECK(columns.size() > 1);
  problem.constraints.saves_memory = false;
  for (DeviceCost& device : problem.devices) {
    device.room.memory = MiB(2);
    device.shares.clear();
  }
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
}

TEST_CASE(
    "of thousands of devices what fits is asked by classes, and one of each is measured with even shares") {
  PlanningProblem problem = LargeModel({{"a", "b"}});
  const std::vector<DeviceCost> kinds = problem.devices;
  problem.devices.clear();
  problem.shape.global_batch_sequences = 4096;
  std::vector<int> ends, hosts;
  for (int host = 0; host < 1000; ++host) {
    for (DeviceCost device : {kinds[host % 2], kinds[host % 2]}) {
      device.name = absl::StrCat("n", host, "/", problem.devices.size());
      device.processor = static_cast<int>(problem.devices.size());
      device.host = host;
      problem.devices.push_back(std::move(device));
      ends.push_back(0);
      hosts.push_back(host);
    }
  }
  problem.links = DeviceLinks(ends, hosts, 1);
  CHECK_FALSE(FitsWithoutSharing(problem));
  const std::vector<WantedShare> wanted = SharesToMeasure(problem);
  REQUIRE(wanted.size() == 2);
  for (const WantedShare& share : wanted)
    CHECK(share.share == AtOrigin(EvenShares(problem.shape.model, 2)[0]));
  CHECK(problem.devices[wanted[0].device].kind != problem.devices[wanted[1].device].kind);
  for (DeviceCost& device : problem.devices)
    device.shares.push_back({.share = wanted[0].share, .room = device.room, .times = device.times});
  CHECK(SharesToMeasure(problem).empty());
  for (DeviceCost& device : problem.devices) device.room.memory = GiB(1);
  CHECK(FitsWithoutSharing(problem));
}

// Of sequences so long that what passes of them take is most of its memory.
PlanningProblem LongSequences() {
  PlanningProblem problem = LargeModel({{"a", "a"}});
  problem.shape.model = {
      .layers = 2, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 64, .context = 1024};
  problem.shape.sequence = 1024;
  problem.micro_batch_sizes = {1};
  problem.constraints.saves_memory = true;
  for (DeviceCost& device : problem.devices) device.times.resize(1);
  return problem;
}

TEST_CASE("where only units that cut rows fit their shares are measured, and they are planned by classes") {
  PlanningProblem problem = LongSequences();
  Plan by_rows;
  by_rows.units = {{.devices = {problem.devices[0].name, problem.devices[1].name},
                    .chunks = {{0, problem.shape.model.blocks()}},
                    .recompute = Recompute::kLayers,
                    .sequence_parallel = true}};
  by_rows.routes = {{{0}, 4, 1}};
  Plan all_rows = by_rows;
  all_rows.units[0].sequence_parallel = false;
  const Bytes memory = MemoryOfRank(by_rows, 0, problem.shape).total();
  REQUIRE(memory < MemoryOfRank(all_rows, 0, problem.shape).total());
  // Nothing is measured where too little memory is there even so, or none may be saved.
  for (DeviceCost& device : problem.devices) device.room.memory = memory - Bytes{1};
  CHECK(SharesToMeasure(problem).empty());
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
  for (DeviceCost& device : problem.devices) device.room.memory = memory;
  problem.constraints.saves_memory = false;
  CHECK(SharesToMeasure(problem).empty());
  problem.constraints.saves_memory = true;
  const std::vector<WantedShare> wanted = SharesToMeasure(problem);
  REQUIRE(wanted.size() == 1);  // the other device is alike
  CHECK(wanted[0].share == AtOrigin(EvenShares(problem.shape.model, 2)[0]));
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
  Measure(problem, {{0, wanted[0].share}, {1, wanted[0].share}});
  CHECK(SharesToMeasure(problem).empty());
  for (const bool whole_blocks : {true, false}) {
    CAPTURE(whole_blocks);
    for (DeviceCost& device : problem.devices) {
      if (!whole_blocks) device.times.clear();
    }
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.status().ToString() == "OK");
    CHECK(chosen->plan.units == by_rows.units);
    CheckValid(problem, chosen->plan);
    CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
    CHECK_FALSE(chosen->proven_optimal);
    CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
    CHECK_THAT(chosen->fitting,
               Catch::StartsWith("no other plan was found that fits, so planned by classes of devices: ") &&
                   Catch::Contains("sequence parallelism"));
  }
}

TEST_CASE("shares that may make plans faster are asked for as far as exchanges leave anything to gain") {
  PlanningProblem problem = LargeModel({{"a", "a", "a", "a"}, {"b"}});
  for (DeviceCost& device : problem.devices) {
    device.room.memory = GiB(1);
    device.has_own_memory = true;
  }
  const auto degrees = [&] {
    std::set<int> found;
    for (const WantedShare& wanted : FasterShares(problem)) {
      CHECK(problem.devices[wanted.device].kind == "a");
      found.insert(256 / wanted.share.feed_forward.size());
    }
    return found;
  };
  CHECK(degrees() == std::set<int>{2, 4});
  // 4 KiB an activation of two micro-batches, some twenty of which a layer exchanges.
  for (LinkCost& link : problem.links.each()) link = {LinkModel::Line(0, 1e4), LinkModel::Line(0, 1e4)};
  CHECK(degrees() == std::set<int>{});
  for (LinkCost& link : problem.links.each()) link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  Measure(problem, FasterShares(problem));
  CHECK_FALSE(problem.devices[0].shares.empty());
  for (size_t d = 1; d < 4; ++d) problem.devices[d].shares = problem.devices[0].shares;
  CHECK(FasterShares(problem).empty());
  // Replicas have enough to do, of those that hold all of it.
  for (DeviceCost& device : problem.devices) device.shares.clear();
  CHECK_FALSE(FasterShares(problem).empty());
  problem.shape.global_batch_sequences = 10;
  CHECK(FasterShares(problem).empty());
  for (DeviceCost& device : problem.devices) device.room.memory = MiB(16);
  CHECK_FALSE(FasterShares(problem).empty());
  for (DeviceCost& device : problem.devices) device.has_own_memory = false;
  CHECK(FasterShares(problem).empty());
}

TEST_CASE("devices that hold no whole blocks take part in units, and a problem that fits shares nothing") {
  PlanningProblem problem = LargeModel({{"a", "a"}});
  Measure(problem, SharesToMeasure(problem));
  for (DeviceCost& device : problem.devices) device.times.clear();
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK_THAT(chosen->fitting, Catch::Contains("no device was measured with whole blocks"));
  PlanningProblem roomy = LargeModel({{"a", "a"}});
  for (DeviceCost& device : roomy.devices) device.room.memory = GiB(1);
  CHECK(FitsWithoutSharing(roomy));
  const auto alone = ChoosePlan(roomy);
  REQUIRE(alone.ok());
  CHECK(alone->fitting.empty());
  CHECK(alone->proven_optimal);
  // What all units of both would take is not known, however slow the one is that planning by classes looks at.
  Measure(roomy, SharesToMeasure(LargeModel({{"a", "a"}})));
  const auto beside = ChoosePlan(roomy);
  REQUIRE(beside.ok());
  CHECK_FALSE(beside->proven_optimal);
  CHECK(beside->lower_bound_seconds <= WorkSeconds(roomy) * (1 + 1e-9));
}

TEST_CASE(
    "units of several devices recompute and share the optimizer's state, too, if that fits or is faster") {
  PlanningProblem problem = LargeModel({{"a", "a"}, {"a", "a"}});
  MeasureAll(problem);
  const auto sharing = ChoosePlan(problem);
  REQUIRE(sharing.status().ToString() == "OK");
  PlanningProblem alone = problem;
  alone.constraints.saves_memory = true;
  for (DeviceCost& device : alone.devices) device.shares.clear();
  const auto saving = ChoosePlan(alone);
  REQUIRE(saving.status().ToString() == "OK");
  CHECK(saving->plan.shards_optimizer);
  CHECK(saving->plan.units[0].devices.size() == 1);
  CheckValid(alone, saving->plan);

  problem.constraints.saves_memory = true;
  const auto any = ChoosePlan(problem);
  REQUIRE(any.status().ToString() == "OK");
  CheckValid(problem, any->plan);
  CHECK(any->step_seconds <= std::min(sharing->step_seconds, saving->step_seconds) * (1 + 1e-9));
  CHECK_THAT(any->fitting, Catch::Contains("a step would take with "));

  // With so little that two a unit do not fit without it.
  for (DeviceCost& device : problem.devices) {
    device.room.memory = MiB(9);
    for (ShareCost& share : device.shares) share.room.memory = MiB(9);
  }
  PlanningProblem keeping = problem;
  keeping.constraints.saves_memory = false;
  CHECK(absl::IsResourceExhausted(ChoosePlan(keeping).status()));
  const auto both = ChoosePlan(problem);
  REQUIRE(both.status().ToString() == "OK");
  CheckValid(problem, both->plan);
  CHECK(both->plan.shards_optimizer);
  CHECK(both->plan.units[0].devices.size() == 2);
  CHECK(both->step_seconds == *PredictStepSeconds(problem, both->plan));
  CHECK_THAT(both->fitting, Catch::Contains("devices of a host share blocks, 2 a unit, and units that hold"));
}

}  // namespace
}  // namespace medley
