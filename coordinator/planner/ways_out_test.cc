#include "coordinator/planner/ways_out.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/planner/every_way.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/planner/techniques/optimizer_shares.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/plan/check_plan.h"

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

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
}

// Which is none of every way, but may make one of them faster.
bool SharesBySpeed(const PlanningProblem& problem, const Plan& plan) {
  const bool even = std::all_of(plan.units.begin(), plan.units.end(), [&](const Unit& unit) {
    return unit.optimizer_weight == plan.units[0].optimizer_weight;
  });
  return plan.shards_optimizer && !even && WithOptimizerSharesBySpeed(problem, plan) == plan;
}

// A problem of which few plans fit, if any. What is chosen for it is planned once: three cases ask for the same ones.
class TightOne {
 public:
  explicit TightOne(uint64_t seed)
      : problem(TightProblem(seed, kAlone)), fits_as_it_is(FitsWithoutSharing(problem)) {}
  static TightOne& Of(uint64_t seed) {
    static auto* const known = new std::map<uint64_t, TightOne>();
    return known->try_emplace(seed, seed).first->second;
  }
  const absl::StatusOr<ChosenPlan>& chosen() {
    if (!chosen_) chosen_ = ChoosePlan(problem);
    return *chosen_;
  }

  const PlanningProblem problem;
  const bool fits_as_it_is;

 private:
  std::optional<absl::StatusOr<ChosenPlan>> chosen_;
};

struct Compared {
  int found = 0, none = 0, recomputing = 0, sharding = 0, both = 0, replicated = 0;
  int by_classes = 0;  // what does is none of all ways
  int windows = 0, several_windows = 0, windows_and_more = 0, hosts = 0;
  int kept = 0;    // fits with nothing saved, and nothing that saves is faster
  int proven = 0;  // of these, that none is faster
  int faster = 0;  // fits with nothing saved, and what saves is faster
};

enum class Expected : uint8_t { kFastest, kNoFasterThanAll };

// `one`: has the problem, or is null.
void CompareOne(const PlanningProblem& problem, Expected expected, int64_t most_plans, Compared& compared,
                TightOne* one = nullptr) {
  const EveryWay every = TryEveryWay(problem, most_plans);
  if (!every.complete) return;
  const absl::StatusOr<ChosenPlan> chosen = one != nullptr ? one->chosen() : ChoosePlan(problem);
  if (every.any_fits) REQUIRE(chosen.status().ToString() == "OK");
  if (!chosen.ok()) {
    CHECK(absl::IsResourceExhausted(chosen.status()));
    CHECK_THAT(std::string(chosen.status().message()), Catch::Contains("even with all of these it needs "));
    ++compared.none;
    return;
  }
  CAPTURE(Describe(chosen->plan), Describe(every.best), chosen->fitting, every.combinations);
  CheckValid(problem, chosen->plan);
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  if (!every.least_seconds) {
    // These ways count layers on hosts with all of the optimizer's state, as the search does.
    CHECK_THAT(chosen->fitting, Catch::StartsWith("no other plan was found that fits") &&
                                    Catch::Contains("layers live in host memory") &&
                                    Catch::Contains("share the optimizer's state"));
    CHECK_FALSE(chosen->proven_optimal);
    CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
    ++compared.by_classes;
    return;
  }
  // These ways keep parameters on the devices, or on hosts.
  const bool on_peers = std::any_of(chosen->plan.units.begin(), chosen->plan.units.end(),
                                    [](const Unit& unit) { return unit.lives_on_peers(); });
  if (!on_peers && !SharesBySpeed(problem, chosen->plan))
    CHECK(chosen->step_seconds >= *every.least_seconds * (1 - 1e-9));
  if (expected == Expected::kFastest) CHECK(chosen->step_seconds <= *every.least_seconds * (1 + 1e-9));
  const std::vector<Unit>& units = chosen->plan.units;
  const bool recomputes = std::any_of(units.begin(), units.end(),
                                      [](const Unit& unit) { return unit.recompute != Recompute::kNone; });
  int windows = 0;  // into host memory
  for (const Unit& unit : units) windows = std::max(windows, unit.lives_on_host() ? unit.window_layers : 0);
  const bool saves = recomputes || chosen->plan.shards_optimizer || windows > 0;
  if (every.least_plain_seconds) {
    CHECK(saves == (chosen->step_seconds < *every.least_plain_seconds * (1 - 1e-9)));
    if (expected == Expected::kFastest && !saves) {
      CHECK(chosen->lower_bound_seconds > 0);
      CHECK(chosen->lower_bound_seconds <= *every.least_seconds * (1 + 1e-9));
      compared.proven += chosen->proven_optimal;
    }
    ++(saves ? compared.faster : compared.kept);
  } else {
    CHECK(saves);
    ++compared.found;
  }
  CHECK(saves == !chosen->fitting.empty());
  if (!saves) return;
  compared.recomputing += recomputes;
  compared.sharding += chosen->plan.shards_optimizer;
  compared.replicated += chosen->plan.routes.size() > 1;
  compared.both += recomputes && chosen->plan.shards_optimizer;
  compared.windows += windows > 0;
  compared.several_windows += windows > 2;
  compared.windows_and_more += windows > 0 && (recomputes || chosen->plan.shards_optimizer);
  compared.hosts += windows > 0 && problem.devices[0].host_memory > Bytes{0};
  const bool for_speed = absl::StrContains(chosen->fitting, "replicas share ");
  if (for_speed) CHECK(chosen->plan.shards_optimizer);
  if (!for_speed) CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
  if (!for_speed) CHECK_FALSE(chosen->proven_optimal);
  if (chosen->proven_optimal) CHECK(chosen->step_seconds <= *every.least_seconds * (1 + 1e-9));
  CHECK(chosen->lower_bound_seconds <= *every.least_seconds * (1 + 1e-9));
  if (for_speed && absl::StartsWith(chosen->fitting, "replicas share ")) return;  // and saves nothing else
  CHECK_THAT(chosen->fitting,
             Catch::StartsWith(every.least_plain_seconds ? "the best plan found that saves no memory takes "
                                                         : "nothing fits with one device a unit") &&
                 Catch::Contains("saves ") && Catch::Contains("predicted to be faster"));
  if (windows > 0) CHECK_THAT(chosen->fitting, Catch::Contains("layers live in host memory on n/"));
}

TEST_CASE("if any combination fits one is found, and it is the fastest of all", "[property]") {
  Compared compared;
  for (uint64_t seed = 0; seed < 350; ++seed) {
    CAPTURE(seed);
    TightOne& one = TightOne::Of(seed);
    if (!one.fits_as_it_is) CompareOne(one.problem, Expected::kFastest, 600, compared, &one);
  }
  CHECK(compared.found > 40);
  CHECK(compared.none > 25);
  CHECK(compared.recomputing > 15);
  CHECK(compared.sharding > 15);
  CHECK(compared.both > 5);
  CHECK(compared.replicated > 2);
}

TEST_CASE("so it is where layers may live in host memory", "[property]") {
  Compared compared;
  for (uint64_t seed = 2000; seed < 2150; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = DeepProblem(seed, 2, 0.8);
    AddCopies(seed, problem);
    if (!FitsWithoutSharing(problem)) CompareOne(problem, Expected::kFastest, 1200, compared);
  }
  CHECK(compared.found > 45);
  CHECK(compared.none > 15);
  CHECK(compared.windows > 30);
  CHECK(compared.several_windows > 7);
  CHECK(compared.windows_and_more > 10);
  CHECK(compared.hosts > 10);
}

TEST_CASE("where plans fit that save nothing, one that saves is chosen if it is faster", "[property]") {
  Compared compared;
  for (uint64_t seed = 3000; seed < 3050; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = DeepProblem(seed, 2, 1.2);
    AddCopies(seed, problem);
    CompareOne(problem, Expected::kFastest, 500, compared);
  }
  for (uint64_t seed = 3200; seed < 3260; ++seed) {
    CAPTURE(seed);
    CompareOne(TightProblem(seed, kAlone), Expected::kFastest, 200, compared);
  }
  CHECK(compared.kept > 2);
  CHECK(compared.proven > compared.kept / 2);
  CHECK(compared.faster > 2);
  CHECK(compared.windows > 2);
}

TEST_CASE("where devices slow each other down a way out is found, too, if there is any", "[property]") {
  RandomProblemOptions options = kAlone;
  options.processors = RandomProcessors::kSometimesShared;
  options.hosts = RandomHosts::kSometimesShared;
  options.slowdowns = RandomSlowdowns::kSometimes;
  Compared compared;
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = TightProblem(seed, options);
    if (!FitsWithoutSharing(problem)) CompareOne(problem, Expected::kNoFasterThanAll, 600, compared);
  }
  CHECK(compared.found > 10);
}

TEST_CASE("a device that holds a block only if memory is saved counts in what is proven") {
  Compared compared;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    PlanningProblem problem = TightProblem(seed, AlikeDevices(2));
    problem.shape.global_batch_sequences = 4;
    problem.devices[0].room = {.memory = GiB(1)};
    for (Bytes memory = GiB(1); memory > Bytes{1000}; memory = Bytes{memory.value * 4 / 5}) {
      problem.devices[1].room = {.memory = memory};
      if (FitsWithoutSharing(OnDevices(problem, {1}))) continue;
      CAPTURE(seed, memory.value);
      CompareOne(problem, Expected::kFastest, 600, compared);
    }
  }
  CHECK(compared.kept > 10);
  CHECK(compared.faster > 10);
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
                 Catch::Contains("; with all of these it would fit, and need ") &&
                 Catch::Contains(", but none is allowed") &&
                 Catch::Contains("; there would be room with ways to save memory, which "
                                 "constraints.saves_memory does not allow, or with "));
  problem.constraints.saves_memory = true;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK_THAT(chosen->fitting, Catch::Contains(" instead of keeping it (saves "));
}

TEST_CASE("where nothing else fits long pipelines store activations on their hosts") {
  PlanningProblem problem = RandomProblem(1, AlikeDevices(12));
  problem.shape.model = {
      .layers = 36, .hidden = 8, .heads = 1, .feed_forward = 32, .vocabulary = 16, .context = 512};
  problem.shape.sequence = 512;
  problem.shape.global_batch_sequences = 16;
  problem.micro_batch_sizes = {1};
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  problem.constraints.saves_memory = true;
  problem.constraints.max_routes = 1;
  for (DeviceCost& device : problem.devices) {
    device.times.resize(1);
    device.room = {.memory = KiB(706)};
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e9;
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK(std::any_of(chosen->plan.units.begin(), chosen->plan.units.end(),
                    [](const Unit& unit) { return unit.activations_home == ActivationsHome::kHost; }));
  CHECK_THAT(chosen->fitting,
             Catch::StartsWith("no other plan was found that fits, so planned by classes of devices: ") &&
                 Catch::Contains("what forwards keep of "));
  CHECK_FALSE(chosen->proven_optimal);
  CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
  for (DeviceCost& device : problem.devices) device.fetch_bytes_per_second = 0;
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
}

TEST_CASE("where nothing helps the refusal says what would still be needed") {
  PlanningProblem problem = TwoDevices({40'000});
  problem.constraints.saves_memory = true;
  const auto refused = ChoosePlan(problem);
  REQUIRE(absl::IsResourceExhausted(refused.status()));
  CHECK_THAT(
      std::string(refused.status().message()),
      Catch::Contains("; even with all of these it needs ") && Catch::Contains(" KiB of 39.1 KiB on n/0") &&
          Catch::Contains("; with 2 devices a unit, the best of those, a device of n/0+n/1 lacks ") &&
          Catch::Contains("; there would be room with ") && Catch::Contains(" more memory on every device"));
  // Of devices that share a processor nothing is planned by classes.
  problem.devices[1].processor = problem.devices[0].processor;
  CHECK_THAT(std::string(ChoosePlan(problem).status().message()), !Catch::Contains("there would be room"));
}

TEST_CASE("where memory keeps nothing from fitting nothing is saved but by replicas that are faster for it") {
  int shared = 0, proven = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    RandomProblemOptions plenty;
    plenty.memory = RandomMemory::kPlenty;
    PlanningProblem problem = RandomProblem(seed, plenty);
    const auto before = ChoosePlan(problem);
    REQUIRE(before.status().ToString() == "OK");
    problem.constraints.saves_memory = true;
    const auto after = ChoosePlan(problem);
    REQUIRE(after.ok());
    if (after->plan == before->plan) {
      CHECK(after->fitting.empty());
      CHECK(before->proven_optimal);
      proven += after->proven_optimal;
      CHECK(after->lower_bound_seconds > 0);
      continue;
    }
    ++shared;
    CHECK(after->lower_bound_seconds > 0);
    CHECK(after->lower_bound_seconds <= after->step_seconds);
    CHECK_THAT(after->fitting, Catch::StartsWith("replicas share the optimizer's state"));
    CHECK(after->plan.shards_optimizer);
    CHECK(after->step_seconds < before->step_seconds);
    CHECK(after->step_seconds == *PredictStepSeconds(problem, after->plan));
    CheckValid(problem, after->plan);
  }
  CHECK(shared > 5);
  CHECK(proven > 10);
}

TEST_CASE("pipelines that recompute or share the optimizer's state get an order of their own, too") {
  int listed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    TightOne& one = TightOne::Of(seed);
    if (one.fits_as_it_is) continue;
    const absl::StatusOr<ChosenPlan>& named = one.chosen();
    PlanningProblem problem = one.problem;
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
  for (uint64_t seed = 0; seed < 180; ++seed) {
    CAPTURE(seed);
    TightOne& one = TightOne::Of(seed);
    if (one.fits_as_it_is) continue;
    const PlanningProblem& problem = one.problem;
    const absl::StatusOr<ChosenPlan>& whole = one.chosen();
    const auto cut = ChoosePlan(problem, {.max_simulations = 1});
    if (!cut.ok()) continue;
    REQUIRE(whole.ok());
    CheckValid(problem, cut->plan);
    if (!SharesBySpeed(problem, cut->plan)) CHECK(cut->step_seconds >= whole->step_seconds * (1 - 1e-9));
    if (cut->step_seconds > whole->step_seconds * (1 + 1e-9)) {
      CHECK_THAT(cut->fitting, Catch::Contains("ended at its limit"));
      ++cut_short;
    }
  }
  CHECK(cut_short > 2);
}

}  // namespace
}  // namespace medley
