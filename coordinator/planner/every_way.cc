#include "coordinator/planner/every_way.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

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
      Plan shared = plan;
      shared.shards_optimizer = true;
      if (plan.routes.size() > 1) Consider(shared);
      if (FitsMemory(problem_, IsFitBy(plan))) return true;
      OptimizerSharding sharding(problem_, plan);
      std::vector<std::vector<UnitSaving>> savings;  // by unit
      for (size_t u = 0; u < plan.units.size(); ++u) {
        savings.push_back(SavingsOf(plan, sharding, static_cast<int>(u)));
        if (savings.back().empty()) return true;
      }
      Plan changed = plan;
      VisitSavings(changed, sharding, savings, 0);
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

  // Those of a unit with which it fits if it has no more of the optimizer's state than it must: what other units do takes nothing
  // off its memory. With all layers recomputed: fewer take no less.
  std::vector<UnitSaving> SavingsOf(Plan plan, const OptimizerSharding& sharding, int u) const {
    std::vector<UnitSaving> savings;
    for (int recompute = 0; recompute < kRecomputes; ++recompute) {
      plan.units[u].recompute = static_cast<Recompute>(recompute);
      for (const int windows : WindowsOf(plan, u)) {
        plan.units[u].window_layers = windows;
        if (Fits(plan, u) || (sharding.CanShard() && Fits(WithLeastStateOf(plan, u), u)))
          savings.push_back({.recompute = plan.units[u].recompute, .window_layers = windows});
      }
      plan.units[u].window_layers = 0;
    }
    return savings;
  }

  static Plan WithLeastStateOf(Plan plan, int u) {
    plan.shards_optimizer = true;
    plan.units[u].optimizer_weight = 0;
    return plan;
  }

  void VisitSavings(Plan& plan, OptimizerSharding& sharding,
                    const std::vector<std::vector<UnitSaving>>& savings, size_t unit) {
    if (unit < plan.units.size()) {
      const Unit as_it_is = plan.units[unit];
      for (const UnitSaving& saving : savings[unit]) {
        saving.Set(plan.units[unit]);
        VisitSavings(plan, sharding, savings, unit + 1);
      }
      plan.units[unit] = as_it_is;
      return;
    }
    ++result_.combinations;
    if (!HostsFit(plan)) return;
    Consider(plan);
    if (!sharding.CanShard()) return;
    std::vector<UnitSaving> of_units;
    for (const Unit& each : plan.units)
      of_units.push_back({.recompute = each.recompute, .window_layers = each.window_layers});
    if (const std::optional<Plan> fitting = sharding.Fit(of_units)) Consider(*fitting);
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

  // With each unit recomputing as few of its layers as fit: the others' passes are no longer for it.
  Plan WithFewest(Plan plan) const {
    for (UnitId u = 0; u < static_cast<int>(plan.units.size()); ++u) {
      Unit& unit = plan.units[u];
      const int layers = unit.recompute == Recompute::kNone ? 0 : LayersOf(unit, problem_.shape.model);
      for (int again = 1; again < layers; ++again) {
        unit.recomputed_layers = again;
        if (Fits(plan, u)) break;
        unit.recomputed_layers = 0;
      }
    }
    return plan;
  }

  void Consider(const Plan& with_all) {
    ConsiderNumbered(with_all);
    if (with_all.shards_optimizer) ConsiderNumbered(WithUnitsByHost(problem_, with_all));
  }

  void ConsiderNumbered(const Plan& with_all) {
    const Plan plan = WithFewest(with_all);
    const absl::StatusOr<double> seconds = simulator_.Run(plan);
    if (!seconds.ok()) std::abort();  // every plan that is made here is valid
    const bool saves =
        plan.shards_optimizer || std::any_of(plan.units.begin(), plan.units.end(), [](const Unit& unit) {
          return unit.recompute != Recompute::kNone || unit.window_layers > 0;
        });
    const bool is_faster = !result_.least_seconds || *seconds < *result_.least_seconds;
    const bool is_faster_plain =
        !saves && (!result_.least_plain_seconds || *seconds < *result_.least_plain_seconds);
    // Memory is dearer to look at than time.
    if (result_.any_fits && !is_faster && !is_faster_plain) return;
    if (!FitsMemory(problem_, plan)) return;
    result_.any_fits = true;
    if (is_faster_plain) result_.least_plain_seconds = *seconds;
    if (!is_faster) return;
    result_.least_seconds = *seconds;
    result_.best = plan;
  }

  const PlanningProblem& problem_;
  StepSimulator simulator_;
  EveryWay result_;
};

}  // namespace

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

EveryWay TryEveryWay(const PlanningProblem& problem, int64_t most_plans) {
  return EveryWayOf(problem).Run(most_plans);
}

}  // namespace medley
