#include "coordinator/planner/ways_out.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/model/model_share.h"
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
  for (const DeviceCost& device : problem.devices) {
    site.room_by_device[device.name] = device.room;
    const std::string host = device.host < 0 ? device.name : absl::StrCat(device.host);
    site.host_by_device[device.name] = {host, device.host_memory};
  }
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, site)) FAIL_CHECK(violation.detail);
}

// With several layers, of which most of the memory is: up to a share of what all on one device needs.
PlanningProblem DeepProblem(uint64_t seed, int most_devices, double most_memory) {
  PlanningProblem problem = RandomProblem(seed, {.min_devices = 1,
                                                 .max_devices = most_devices,
                                                 .max_micro_batches = 3,
                                                 .processors = RandomProcessors::kOwn,
                                                 .hosts = RandomHosts::kOwn,
                                                 .slowdowns = RandomSlowdowns::kNone,
                                                 .memory = RandomMemory::kPlenty});
  problem.constraints.saves_memory = true;
  std::mt19937_64 random(seed);
  problem.shape.model.layers = std::uniform_int_distribution<int>(4, 6)(random);
  problem.shape.model.vocabulary = 8;
  const BufferCounts all = {.stash = {problem.shape.global_batch_sequences}};
  const Bytes whole =
      MemoryOf(problem.shape.model, problem.shape.sequence, {{0, problem.shape.model.blocks()}}, 1, all)
          .total();
  for (DeviceCost& device : problem.devices) {
    const double share = std::uniform_real_distribution<double>(0.3, most_memory)(random);
    device.room = {.memory = {static_cast<int64_t>(static_cast<double>(whole.value) * share)}};
  }
  return problem;
}

// Copies between the devices and hosts, of a layer about as long as its passes; on some hosts too little memory for
// all layers.
void AddCopies(uint64_t seed, PlanningProblem& problem) {
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const ModelConfig& model = problem.shape.model;
  const auto whole = static_cast<double>(HomeBytes(model, WholeModel(model), model.layers).value);
  for (DeviceCost& device : problem.devices) {
    const double layer_seconds = device.times[0].layer.forward_seconds;
    const double layer_bytes = whole / 4 / model.layers;
    device.fetch_bytes_per_second = layer_bytes / (layer_seconds * real(0.05, 2));
    device.store_bytes_per_second = layer_bytes / (layer_seconds * real(0.05, 2));
  }
  const bool together = random() % 2 == 0;  // on one host
  if (random() % 2 == 0) return;
  const Bytes memory = {static_cast<int64_t>(whole * real(0.4, 1.6))};
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    problem.devices[d].host = together ? 0 : static_cast<int>(d);
    problem.devices[d].host_memory = memory;
  }
}

// What all combinations of what units recompute, of where their layers live, and of whether and by which weights they
// share the optimizer's state, make of every plan of a small problem that does not fit as it is.
struct EveryWay {
  std::optional<double> least_seconds;  // of those that fit, with weights as OptimizerSharding finds them
  std::optional<double> least_plain_seconds;  // of those that save nothing
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
      Consider(plan);
      if (FitsMemory(problem_, IsFitBy(plan))) return true;
      Plan changed = plan;
      OptimizerSharding sharding(problem_, plan);
      VisitSavings(changed, sharding, 0);
      return true;
    });
    return result_;
  }

 private:
  // Without a pipeline all schedules take the same time, and 1F1B the least memory: what fits under it saves nothing
  // under another, either.
  Plan IsFitBy(Plan plan) const {
    const std::vector<Schedule>& allowed = problem_.constraints.schedules;
    const bool allows_1f1b = std::count(allowed.begin(), allowed.end(), Schedule::kOneForwardOneBackward) > 0;
    if (allows_1f1b && plan.routes.size() == plan.units.size())
      plan.schedule = Schedule::kOneForwardOneBackward;
    return plan;
  }

  void VisitSavings(Plan& plan, OptimizerSharding& sharding, size_t unit) {
    if (unit < plan.units.size()) {
      const Unit as_it_is = plan.units[unit];
      for (int recompute = 0; recompute < kRecomputes; ++recompute) {
        plan.units[unit] = as_it_is;
        plan.units[unit].recompute = static_cast<Recompute>(recompute);
        for (const int windows : WindowsOf(plan, static_cast<int>(unit))) {
          plan.units[unit].window_layers = windows;
          VisitSavings(plan, sharding, unit + 1);
        }
      }
      plan.units[unit] = as_it_is;
      return;
    }
    ++result_.combinations;
    if (!HostsFit(plan)) return;
    Consider(plan);
    if (!sharding.CanShard()) return;
    std::vector<UnitSaving> savings;
    for (const Unit& each : plan.units) savings.push_back({each.recompute, each.window_layers});
    if (const std::optional<Plan> fitting = sharding.Fit(savings)) Consider(*fitting);
    if (result_.any_fits) return;
    Plan weighted = plan;
    weighted.shards_optimizer = true;
    VisitWeights(weighted, 0);
  }

  bool Fits(const Plan& plan, UnitId unit) const {
    const Rank rank = FirstRankOf(plan, unit);
    return medley::Fits(MemoryOfRank(plan, rank, problem_.shape), RoomOf(problem_, plan, rank));
  }

  // None, two, and as many as fit beside the unit's own state; of a unit that does not fit as it is.
  std::vector<int> WindowsOf(Plan plan, int u) const {
    std::vector<int> windows = {0};
    Unit& unit = plan.units[u];
    if (FindDevice(problem_, unit.devices[0])->fetch_bytes_per_second == 0) return windows;
    const Recompute recompute = unit.recompute;
    unit.recompute = Recompute::kNone;
    if (Fits(plan, u)) return windows;
    unit.recompute = recompute;
    int most = 0;
    for (int w = 2; w < LayersOf(unit, problem_.shape.model); ++w) {
      unit.window_layers = w;
      if (Fits(plan, u)) most = w;
    }
    if (most >= 2) windows.push_back(2);
    if (most > 2) windows.push_back(most);
    return windows;
  }

  // All of the optimizer's state counted.
  bool HostsFit(const Plan& plan) const {
    std::map<int, Bytes> on_host;
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const DeviceCost& device = *FindDevice(problem_, DeviceOf(plan, rank));
      if (device.host_memory == Bytes{0}) continue;
      Bytes& needed = on_host[device.host];
      needed += MemoryOfRank(plan, rank, problem_.shape).host;
      if (needed > device.host_memory) return false;
    }
    return true;
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
    REQUIRE(seconds.status().ToString() == "OK");
    const bool saves =
        plan.shards_optimizer || std::any_of(plan.units.begin(), plan.units.end(), [](const Unit& unit) {
          return unit.recompute != Recompute::kNone || unit.window_layers > 0;
        });
    if (!saves && *seconds < result_.least_plain_seconds.value_or(*seconds + 1))
      result_.least_plain_seconds = *seconds;
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
  int windows = 0, several_windows = 0, windows_and_more = 0, hosts = 0;
  int kept = 0;    // fits with nothing saved, and nothing that saves is faster
  int faster = 0;  // fits with nothing saved, and what saves is faster
};

enum class Expected : uint8_t { kFastest, kNoFasterThanAll };

void CompareOne(const PlanningProblem& problem, Expected expected, int64_t most_plans, Compared& compared) {
  const EveryWay every = EveryWayOf(problem).Run(most_plans);
  if (!every.complete) return;
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
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
  REQUIRE(every.least_seconds.has_value());
  CHECK(chosen->step_seconds >= *every.least_seconds * (1 - 1e-9));
  if (expected == Expected::kFastest) CHECK(chosen->step_seconds <= *every.least_seconds * (1 + 1e-9));
  const std::vector<Unit>& units = chosen->plan.units;
  const bool recomputes = std::any_of(units.begin(), units.end(),
                                      [](const Unit& unit) { return unit.recompute != Recompute::kNone; });
  const auto windows = std::max_element(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
                         return a.window_layers < b.window_layers;
                       })->window_layers;
  const bool saves = recomputes || chosen->plan.shards_optimizer || windows > 0;
  if (every.least_plain_seconds) {
    CHECK(saves == (chosen->step_seconds < *every.least_plain_seconds * (1 - 1e-9)));
    if (expected == Expected::kFastest && !saves) CHECK(chosen->proven_optimal);
    ++(saves ? compared.faster : compared.kept);
  } else {
    CHECK(saves);
    ++compared.found;
  }
  CHECK(saves == !chosen->fitting.empty());
  if (!saves) return;
  CHECK_FALSE(chosen->proven_optimal);
  CHECK(chosen->lower_bound_seconds == 0);
  compared.recomputing += recomputes;
  compared.sharding += chosen->plan.shards_optimizer;
  compared.replicated += chosen->plan.routes.size() > 1;
  compared.both += recomputes && chosen->plan.shards_optimizer;
  compared.windows += windows > 0;
  compared.several_windows += windows > 2;
  compared.windows_and_more += windows > 0 && (recomputes || chosen->plan.shards_optimizer);
  compared.hosts += windows > 0 && problem.devices[0].host_memory > Bytes{0};
  CHECK_THAT(chosen->fitting,
             Catch::StartsWith(every.least_plain_seconds ? "the best plan found that saves no memory takes "
                                                         : "nothing fits with one device a unit") &&
                 Catch::Contains("saves ") && Catch::Contains("predicted to be faster"));
  if (windows > 0) CHECK_THAT(chosen->fitting, Catch::Contains("layers live in host memory on n/"));
}

void Compare(uint64_t first_seed, uint64_t end_seed, const RandomProblemOptions& options, Expected expected,
             Compared& compared) {
  for (uint64_t seed = first_seed; seed < end_seed; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = TightProblem(seed, options);
    if (!FitsWithoutSharing(problem)) CompareOne(problem, expected, 1200, compared);
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

TEST_CASE("so it is where layers may live in host memory", "[property]") {
  Compared compared;
  for (uint64_t seed = 2000; seed < 2300; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = DeepProblem(seed, 2, 0.8);
    AddCopies(seed, problem);
    if (!FitsWithoutSharing(problem)) CompareOne(problem, Expected::kFastest, 1200, compared);
  }
  CHECK(compared.found > 90);
  CHECK(compared.none > 30);
  CHECK(compared.windows > 60);
  CHECK(compared.several_windows > 15);
  CHECK(compared.windows_and_more > 20);
  CHECK(compared.hosts > 20);
}

TEST_CASE("where plans fit that save nothing, one that saves is chosen if it is faster", "[property]") {
  Compared compared;
  for (uint64_t seed = 3000; seed < 3100; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = DeepProblem(seed, 2, 1.2);
    AddCopies(seed, problem);
    CompareOne(problem, Expected::kFastest, 500, compared);
  }
  for (uint64_t seed = 3200; seed < 3320; ++seed) {
    CAPTURE(seed);
    CompareOne(TightProblem(seed, kAlone), Expected::kFastest, 200, compared);
  }
  CHECK(compared.kept > 5);
  CHECK(compared.faster > 5);
  CHECK(compared.windows > 5);
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
                 Catch::Contains("; with all of these it would fit, and need ") &&
                 Catch::Contains(", but none is allowed"));
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
             Catch::Contains("; even with all of these it needs ") &&
                 Catch::Contains(" KiB of 39.1 KiB on n/0") &&
                 Catch::Contains("; with 2 devices a unit, the best of those, a device of n/0+n/1 lacks "));
}

TEST_CASE("where memory keeps nothing from fitting, planning is as if nothing could be saved") {
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
