#include "coordinator/planner/ways_out.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/memory_saving.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

const RandomProblemOptions kAlone = {.min_devices = 2,
                                     .max_devices = 3,
                                     .max_layers = 3,
                                     .max_micro_batches = 4,
                                     .processors = RandomProcessors::kOwn,
                                     .hosts = RandomHosts::kOwn,
                                     .slowdowns = RandomSlowdowns::kNone,
                                     .memory = RandomMemory::kPlenty};

// With so little memory that few plans fit.
PlanningProblem TightProblem(uint64_t seed, const RandomProblemOptions& options) {
  PlanningProblem problem = RandomProblem(seed, options);
  problem.constraints.saves_memory = true;
  std::mt19937_64 random(seed);
  const BufferCounts all = {.stash = {problem.shape.global_batch_sequences}};
  const Bytes whole =
      MemoryOf(problem.shape.model, problem.shape.sequence, {{0, problem.shape.model.blocks()}}, 1, all)
          .total();
  for (DeviceCost& device : problem.devices) {
    const double share = std::uniform_real_distribution<double>(0.3, 1)(random);
    device.room = {.memory = {static_cast<int64_t>(static_cast<double>(whole.value) * share)}};
  }
  return problem;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  PlanSite site;
  for (const DeviceCost& device : problem.devices) site.room_by_device[device.name] = device.room;
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, site)) FAIL_CHECK(violation.detail);
}

// What all combinations of what units recompute, and of whether and by which weights they share the
// optimizer's state, make of every plan of a small problem.
struct EveryWay {
  std::optional<double> least_seconds;  // of those that fit, with weights as OptimizerSharding finds them
  Plan best;
  bool any_fits = false;  // with whatever weights of 0 to 2
  bool complete = true;
  int64_t combinations = 0;
};

class EveryWayOf {
 public:
  explicit EveryWayOf(const PlanningProblem& problem) : problem_(problem), simulator_(problem) {}

  EveryWay Run(int64_t most_plans) {
    int64_t plans = 0;
    VisitEveryPlan(problem_, SameKind::kAllOrders, [&](const Plan& plan) {
      if (++plans > most_plans) {
        result_.complete = false;
        return false;
      }
      Plan changed = plan;
      OptimizerSharding sharding(problem_, plan);
      VisitRecomputes(changed, sharding, 0);
      return true;
    });
    return result_;
  }

 private:
  void VisitRecomputes(Plan& plan, OptimizerSharding& sharding, size_t unit) {
    if (unit < plan.units.size()) {
      for (int recompute = 0; recompute < kRecomputes; ++recompute) {
        plan.units[unit].recompute = static_cast<Recompute>(recompute);
        VisitRecomputes(plan, sharding, unit + 1);
      }
      return;
    }
    ++result_.combinations;
    Consider(plan);
    if (!sharding.CanShard()) return;
    std::vector<Recompute> recomputes;
    for (const Unit& each : plan.units) recomputes.push_back(each.recompute);
    if (const std::optional<Plan> fitting = sharding.Fit(recomputes)) Consider(*fitting);
    if (result_.any_fits) return;
    Plan weighted = plan;
    weighted.shards_optimizer = true;
    VisitWeights(weighted, 0);
  }

  void VisitWeights(Plan& plan, size_t unit) {
    if (result_.any_fits) return;
    if (unit == plan.units.size()) {
      result_.any_fits = CheckPlanForm(plan, problem_.shape).empty() && FitsMemory(problem_, plan);
      return;
    }
    for (int weight = 0; weight <= 2; ++weight) {
      plan.units[unit].optimizer_weight = weight;
      VisitWeights(plan, unit + 1);
    }
  }

  void Consider(const Plan& plan) {
    if (!FitsMemory(problem_, plan)) return;
    result_.any_fits = true;
    const absl::StatusOr<double> seconds = simulator_.Run(plan);
    REQUIRE(seconds.ok());
    if (result_.least_seconds && *seconds >= *result_.least_seconds) return;
    result_.least_seconds = *seconds;
    result_.best = plan;
  }

  const PlanningProblem& problem_;
  StepSimulator simulator_;
  EveryWay result_;
};

struct Compared {
  int found = 0, none = 0, recomputing = 0, sharding = 0, both = 0, replicated = 0;
};

enum class Expected : uint8_t { kFastest, kNoFasterThanAll };
void Compare(uint64_t first_seed, uint64_t end_seed, const RandomProblemOptions& options, Expected expected,
             Compared& compared) {
  for (uint64_t seed = first_seed; seed < end_seed; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = TightProblem(seed, options);
    if (FitsWithoutSharing(problem)) continue;
    const EveryWay every = EveryWayOf(problem).Run(1200);
    if (!every.complete) continue;
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    if (every.any_fits) REQUIRE(chosen.status().ToString() == "OK");
    if (!chosen.ok()) {
      CHECK(absl::IsResourceExhausted(chosen.status()));
      CHECK_THAT(std::string(chosen.status().message()), Catch::Contains("even with both it "));
      ++compared.none;
      continue;
    }
    ++compared.found;
    CAPTURE(Describe(chosen->plan), Describe(every.best), chosen->fitting, every.combinations);
    CheckValid(problem, chosen->plan);
    CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
    CHECK_FALSE(chosen->proven_optimal);
    CHECK(chosen->lower_bound_seconds == 0);
    REQUIRE(every.least_seconds.has_value());
    CHECK(chosen->step_seconds >= *every.least_seconds * (1 - 1e-9));
    if (expected == Expected::kFastest) CHECK(chosen->step_seconds <= *every.least_seconds * (1 + 1e-9));
    const bool recomputes = std::any_of(chosen->plan.units.begin(), chosen->plan.units.end(),
                                        [](const Unit& unit) { return unit.recompute != Recompute::kNone; });
    compared.recomputing += recomputes;
    compared.sharding += chosen->plan.shards_optimizer;
    compared.replicated += chosen->plan.routes.size() > 1;
    compared.both += recomputes && chosen->plan.shards_optimizer;
    CHECK((recomputes || chosen->plan.shards_optimizer));
    CHECK_THAT(chosen->fitting, Catch::StartsWith("nothing fits with one device a unit") &&
                                    Catch::Contains("saves ") && Catch::Contains("predicted to be faster"));
  }
}

TEST_CASE("if any combination fits one is found, and it is the fastest of all", "[property]") {
  Compared compared;
  Compare(0, 700, kAlone, Expected::kFastest, compared);
  CHECK(compared.found > 80);
  CHECK(compared.none > 50);
  CHECK(compared.recomputing > 30);
  CHECK(compared.sharding > 30);
  CHECK(compared.both > 10);
  CHECK(compared.replicated > 5);
}

TEST_CASE("where devices slow each other down a way out is found, too, if there is any", "[property]") {
  RandomProblemOptions options = kAlone;
  options.processors = RandomProcessors::kSometimesShared;
  options.hosts = RandomHosts::kSometimesShared;
  options.slowdowns = RandomSlowdowns::kSometimes;
  Compared compared;
  Compare(1000, 1300, options, Expected::kNoFasterThanAll, compared);
  CHECK(compared.found > 20);
}

// Devices of one host on which recomputing and sharing the optimizer's state each save something.
PlanningProblem TwoDevices(Bytes memory) {
  PlanningProblem problem = RandomProblem(1, AlikeDevices(2));
  problem.shape.model = {
      .layers = 4, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 50, .context = 64};
  problem.shape.sequence = 64;
  problem.shape.global_batch_sequences = 8;
  problem.micro_batch_sizes = {1};
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  for (DeviceCost& device : problem.devices) {
    device.times.resize(1);
    device.room = {.memory = memory};
    device.host = 0;
  }
  return problem;
}

TEST_CASE("what is not allowed is not done, and the refusal says with figures what it would do") {
  PlanningProblem problem = TwoDevices(GiB(1));
  // Between what plans need that keep everything and what they need otherwise.
  Bytes memory = GiB(1);
  while (FitsWithoutSharing(TwoDevices(memory))) memory = Bytes{memory.value * 9 / 10};
  problem = TwoDevices(memory);
  const auto refused = ChoosePlan(problem);
  REQUIRE(absl::IsResourceExhausted(refused.status()));
  const std::string limit = FormatBytes(memory);
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("lacks ") &&
                 Catch::Contains(absl::StrCat("; with recomputed layers it would fit, and need ")) &&
                 Catch::Contains(absl::StrCat(" of ", limit, " on n/0 for blocks ")) &&
                 Catch::Contains("; with shared optimizer state it ") &&
                 Catch::Contains("; with both it would fit, and need ") &&
                 Catch::Contains(", but neither is allowed"));
  problem.constraints.saves_memory = true;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK_THAT(chosen->fitting, Catch::Contains(" instead of keeping it (saves "));
}

TEST_CASE("where nothing helps the refusal says what would still be needed") {
  PlanningProblem problem = TwoDevices({40'000});
  problem.constraints.saves_memory = true;
  const auto refused = ChoosePlan(problem);
  REQUIRE(absl::IsResourceExhausted(refused.status()));
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("; even with both it needs ") && Catch::Contains(" KiB of 39.1 KiB on n/0") &&
                 Catch::Contains("; with 2 devices a unit, the best of those, a device of n/0+n/1 lacks "));
}

TEST_CASE("a job that fits is planned as if nothing could be saved") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed);
    const auto before = ChoosePlan(problem);
    if (!before.ok()) continue;
    problem.constraints.saves_memory = true;
    const auto after = ChoosePlan(problem);
    REQUIRE(after.ok());
    CHECK(after->plan == before->plan);
    CHECK(after->simulated_plans == before->simulated_plans);
    CHECK(after->fitting.empty());
  }
}

TEST_CASE("pipelines that recompute or share the optimizer's state get an order of their own, too") {
  int listed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = TightProblem(seed, kAlone);
    if (FitsWithoutSharing(problem)) continue;
    const auto named = ChoosePlan(problem);
    problem.constraints.synthesised_orders = true;
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok() == named.ok());
    if (!chosen.ok()) continue;
    CAPTURE(Describe(chosen->plan));
    CheckValid(problem, chosen->plan);
    CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
    CHECK(chosen->step_seconds <= named->step_seconds);
    listed += chosen->plan.schedule == Schedule::kListed;
  }
  CHECK(listed > 0);
}

TEST_CASE("a search that is cut short finds what fits, and says that it was cut") {
  int cut_short = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = TightProblem(seed, kAlone);
    if (FitsWithoutSharing(problem)) continue;
    const auto whole = ChoosePlan(problem), cut = ChoosePlan(problem, {.max_simulations = 1});
    if (!cut.ok()) continue;
    REQUIRE(whole.ok());
    CheckValid(problem, cut->plan);
    CHECK(cut->step_seconds >= whole->step_seconds * (1 - 1e-9));
    if (cut->step_seconds > whole->step_seconds * (1 + 1e-9)) {
      CHECK_THAT(cut->fitting, Catch::Contains("ended at its limit"));
      ++cut_short;
    }
  }
  CHECK(cut_short > 5);
}

}  // namespace
}  // namespace medley
