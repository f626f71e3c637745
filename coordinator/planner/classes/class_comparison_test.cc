// Plans by classes beside others: those of the whole search, and simple ones of replicas.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

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

}  // namespace
}  // namespace medley
