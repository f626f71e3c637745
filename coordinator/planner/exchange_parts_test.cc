#include "coordinator/planner/techniques/exchange_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

constexpr double kSumBytes = 16 * 64 * 4;  // of what a unit sums of one sequence

// Hosts of two devices each, of which only two hold the embedding together, with even shares measured. A sequence's
// forward takes each of them `forward_seconds` a layer, and a sum of so many sequences between them so much each.
PlanningProblem Pairs(int hosts, double forward_seconds, double sum_seconds) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 3, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 20000, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 4;
  problem.micro_batch_sizes = {1, 2, 4};
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  for (int d = 0; d < 2 * hosts; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = absl::StrCat("n", d / 2, "/gpu", d % 2);
    device.kind = "gpu";
    device.processor = d;
    device.host = d / 2;
    device.room.memory = MiB(16);
    ShareCost share{.room = device.room};
    for (const int size : problem.micro_batch_sizes) {
      const double seconds = forward_seconds * size;
      share.times.push_back({{}, {seconds, 2 * seconds, seconds}, {}});
      device.times.push_back({{}, {2 * seconds, 4 * seconds, 2 * seconds}, {}});
    }
    for (const ModelShare& each : shares) {
      share.share = AtOrigin(each);
      if (device.shares.empty() || !(device.shares.back().share == share.share))
        device.shares.push_back(share);
    }
  }
  problem.links = DeviceLinks(2 * hosts);
  for (LinkCost& link : problem.links.each())
    link = {LinkModel::Line(1e-6, 1e12), LinkModel::Line(1e-6, 1e12)};
  const LinkModel inside = LinkModel::Line(0, kSumBytes / sum_seconds);
  for (int host = 0; host < hosts; ++host) problem.links.Set(2 * host, 2 * host + 1, {inside, inside});
  return problem;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem))) {
    CAPTURE(violation.detail);
    CHECK(false);
  }
}

TEST_CASE("a unit exchanges in parts where that is faster, and it is said how much") {
  PlanningProblem problem = Pairs(1, 0.5, 0.5);
  problem.micro_batch_sizes = {2, 4};
  for (DeviceCost& device : problem.devices) {
    device.times.erase(device.times.begin());
    for (ShareCost& share : device.shares) share.times.erase(share.times.begin());
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  REQUIRE(chosen->plan.units.size() == 1);
  CHECK(chosen->plan.units[0].exchange_parts == 2);  // what takes 4 has not been measured
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  Plan whole = chosen->plan;
  whole.units[0].exchange_parts = 1;
  const double whole_seconds = *PredictStepSeconds(problem, whole);
  CHECK(whole_seconds > 1.2 * chosen->step_seconds);
  CHECK_THAT(chosen->fitting, Catch::Contains(absl::StrFormat(
                                  "units exchange in 2 parts of a micro-batch beside what they compute of "
                                  "others, %.1f %% faster than of whole ones",
                                  100 * (whole_seconds / chosen->step_seconds - 1))));
}

TEST_CASE("nothing is cut where that gains nothing") {
  PlanningProblem problem = Pairs(1, 0.5, 0.5);
  SECTION("quick links") { problem = Pairs(1, 0.5, 1e-6); }
  SECTION("cores that exchange") {
    for (DeviceCost& device : problem.devices) device.cores = 4;
  }
  SECTION("small micro-batches compute much less well") {
    problem = Pairs(1, 0.5, 0.05);
    for (DeviceCost& device : problem.devices) {
      for (ShareCost& share : device.shares) share.times[0] = share.times[1] = share.times[2];
    }
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  for (const Unit& unit : chosen->plan.units) CHECK(unit.exchange_parts == 1);
  CHECK_THAT(chosen->fitting, !Catch::Contains("parts of a micro-batch"));
}

// The least of all plans of units of two, with all numbers of parts.
double LeastSeconds(const PlanningProblem& problem) {
  const UnitProblem of_units = MakeUnitProblem(problem, UnitsOfDegree(problem, 2, Sharing::kEven));
  StepSimulator simulator(problem);
  double least = std::numeric_limits<double>::infinity();
  VisitEveryPlan(of_units.problem, SameKind::kInOrder, [&](const Plan& plan) {
    Plan cut = plan;
    std::vector<int> sequences;  // of each unit
    for (const Route& route : plan.routes) {
      for (const UnitId u : route.units) {
        const auto shared =
            std::find_if(of_units.units.begin(), of_units.units.end(), [&](const SharedUnit& each) {
              return absl::StrCat(problem.devices[each.devices[0]].name, "+",
                                  problem.devices[each.devices[1]].name) == plan.units[u].devices[0];
            });
        cut.units[u] = UnitOf(problem, *shared, plan.units[u].chunks[0]);
        sequences.push_back(route.micro_batch_sequences);
      }
    }
    const auto visit = [&](const auto& self, size_t unit) -> void {
      if (unit == cut.units.size()) {
        const auto seconds = simulator.Run(cut);
        if (seconds.ok() && *seconds < least && FitsMemory(problem, cut)) least = *seconds;
        return;
      }
      for (int parts = 1; parts <= std::max(sequences[unit], kMostPartsOfRows); ++parts) {
        cut.units[unit].exchange_parts = parts;
        self(self, unit + 1);
      }
    };
    visit(visit, 0);
    return true;
  });
  return least;
}

TEST_CASE("no plan with other parts is faster, by more than what parts must gain") {
  int in_parts = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto real = [&](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(random);
    };
    const double sum_seconds =
        seed % 4 == 3 ? real(1e-5, 1e-4) : real(0.01, 1.5);  // some sums are worth no parts
    PlanningProblem problem = Pairs(1 + static_cast<int>(seed % 2), 0.5, sum_seconds);
    for (DeviceCost& device : problem.devices) {
      std::mt19937_64 of_host(seed + device.host);
      device.kind = absl::StrCat("kind ", device.host);
      const double faster = std::uniform_real_distribution<double>(0.5, 1.5)(of_host);
      for (ShareCost& share : device.shares) {
        for (BlockTimes& times : share.times) {
          const double less = faster * std::uniform_real_distribution<double>(0.8, 1)(of_host);
          times.layer.forward_seconds *= less;
          times.layer.backward_seconds *= less;
          times.layer.weight_gradient_seconds *= less;
        }
      }
    }
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.status().ToString() == "OK");
    CheckValid(problem, chosen->plan);
    CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
    CHECK(chosen->step_seconds <= LeastSeconds(problem) / (1 - kLeastGainOfParts));
    in_parts += std::any_of(chosen->plan.units.begin(), chosen->plan.units.end(),
                            [](const Unit& unit) { return unit.exchange_parts > 1; });
  }
  CHECK(in_parts > 20);
  CHECK(in_parts < 60);
}

TEST_CASE("plans that are made by classes are cut, too, where that is faster") {
  PlanningProblem problem = Pairs(9, 0.5, 0.5);
  REQUIRE(problem.devices.size() > kMostSearchedDevices);
  problem.shape.global_batch_sequences = 36;
  problem.constraints.max_stages = 1;
  for (DeviceCost& device : problem.devices) {
    for (ShareCost& share : device.shares) {
      for (size_t size = 0; size < share.times.size(); ++size) {
        const double less = 1 - 0.1 * static_cast<double>(size);
        share.times[size].layer.forward_seconds *= less;
        share.times[size].layer.backward_seconds *= less;
        share.times[size].layer.weight_gradient_seconds *= less;
      }
    }
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  AlikeRoutePredictor predictor(problem);
  Plan whole = chosen->plan;
  for (Unit& unit : whole.units) {
    CHECK(unit.exchange_parts > 1);
    unit.exchange_parts = 1;
  }
  CHECK(chosen->step_seconds < *predictor.Predict(whole) * 0.9);
  CHECK(chosen->lower_bound_seconds == WorkSeconds(problem));
  CHECK_THAT(chosen->fitting, Catch::Contains("units exchange in "));

  for (DeviceCost& device : problem.devices) device.cores = 2;
  const auto on_cores = ChoosePlan(problem);
  REQUIRE(on_cores.status().ToString() == "OK");
  for (const Unit& unit : on_cores->plan.units) CHECK(unit.exchange_parts == 1);
  CHECK(on_cores->lower_bound_seconds > 0);
}

}  // namespace
}  // namespace medley
