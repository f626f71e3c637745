#include "coordinator/planner/techniques/fewest_layers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/predictor/predict.h"
#include "runtime/base/greatest_that.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/optimizer_shard.h"

namespace medley {
namespace {

// Something that a unit does of some of its layers to need less memory.
struct OfLayers {
  std::function<bool(const Unit& unit)> is_done;
  int fewest = 0;  // of how many layers at least
  // Of so many, or of all: as many as it has.
  std::function<void(Unit& unit, int layers)> set;
  // What a rank takes whose unit does it of so many, from its program in a plan that does it of all, and what it owns of the
  // optimizer's state in either; null: all of it.
  std::function<RankMemory(const Plan& of_all, StepProgram& program, const OptimizerShard* optimizer,
                           int layers)>
      memory;
};

// How many of the layers of a rank's unit need not do it, by what the rank does and the room that it has.
class SparedLayers {
 public:
  // Each unit of `plan` that does it does it of all layers. All outlive this.
  SparedLayers(const PlanningProblem& problem, const Plan& plan, const OfLayers& what)
      : problem_(problem), plan_(plan), what_(what), device_by_name_(DevicesByName(problem)) {
    if (RankCount(plan) > kMostToldAlone) stand_ins_ = StandInsOf(plan);
  }

  int Of(Rank rank, const Unit& unit, const ModelShare& share, const std::string& device) {
    const Rank stand_in = stand_ins_.empty() ? rank : stand_ins_[rank];
    const ModelConfig& model = problem_.shape.model;
    const DeviceRoom room = RoomOf(problem_.devices[device_by_name_.at(device)], model, share);
    auto [alike, is_new] = alike_.try_emplace(stand_in);
    if (is_new) {
      alike->second.program = CompileStep(plan_, stand_in, problem_.shape, Purpose::kTrain);
      if (plan_.shards_optimizer) alike->second.optimizer = OptimizerShardOf(plan_, stand_in, model);
    }
    const std::optional<OptimizerShard>& optimizer = alike->second.optimizer;
    std::vector<std::pair<DeviceRoom, int>>& known = alike->second.spared;
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& of) { return of.first == room; });
    if (same != known.end()) return same->second;
    const int layers = LayersOf(unit, model);
    const int spared = GreatestThat(0, layers - what_.fewest, [&](int spares) {
      return Fits(
          what_.memory(plan_, alike->second.program, optimizer ? &*optimizer : nullptr, layers - spares),
          room);
    });
    known.push_back({room, spared});
    return spared;
  }

 private:
  struct Alike {
    StepProgram program;
    std::optional<OptimizerShard> optimizer;
    std::vector<std::pair<DeviceRoom, int>> spared;
  };
  const PlanningProblem& problem_;
  const Plan& plan_;
  const OfLayers& what_;
  const std::unordered_map<std::string, int> device_by_name_;
  std::vector<Rank> stand_ins_;  // empty: each rank tells of itself
  std::map<Rank, Alike> alike_;
};

Plan WithFewest(const PlanningProblem& problem, Plan plan, const OfLayers& what) {
  bool any = false;
  for (Unit& unit : plan.units) {
    if (!what.is_done(unit)) continue;
    what.set(unit, LayersOf(unit, problem.shape.model));
    any = true;
  }
  if (!any) return plan;
  const Plan of_all = plan;
  SparedLayers spared_layers(problem, of_all, what);
  Rank rank = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = of_all.units[u];
    const int layers = LayersOf(unit, problem.shape.model);
    int spared = what.is_done(unit) ? std::max(0, layers - what.fewest) : 0;
    const std::vector<ModelShare> shares = SharesOf(unit, problem.shape.model);
    for (size_t member = 0; member < unit.devices.size(); ++member, ++rank) {
      if (spared > 0)
        spared = std::min(spared, spared_layers.Of(rank, unit, shares[member], unit.devices[member]));
    }
    if (spared > 0) what.set(plan.units[u], layers - spared);
  }
  return plan;
}

}  // namespace

Plan WithFewestRecomputed(const PlanningProblem& problem, Plan plan) {
  return WithFewest(
      problem, std::move(plan),
      {.is_done = [](const Unit& unit) { return unit.recompute != Recompute::kNone; },
       .fewest = 1,
       .set =
           [&](Unit& unit, int layers) {
             unit.recomputed_layers = layers == LayersOf(unit, problem.shape.model) ? 0 : layers;
           },
       .memory =
           [&](const Plan& of_all, StepProgram& program, const OptimizerShard* optimizer, int layers) {
             program.buffers.recomputed_layers = layers;
             return MemoryOfProgram(of_all, program, problem.shape, optimizer);
           }});
}

Plan WithFewestHomed(const PlanningProblem& problem, Plan plan) {
  const auto store_of = [&](Unit& unit, int layers) {
    const int all = LayersOf(unit, problem.shape.model);
    if (layers == 0 && all > 0) return unit.KeepActivationsOnDevice();
    unit.homed_layers = layers == all ? 0 : layers;
  };
  return WithFewest(
      problem, std::move(plan),
      {.is_done = [](const Unit& unit) { return unit.activations_home == ActivationsHome::kHost; },
       .set = store_of,
       .memory =
           [&](const Plan& of_all, StepProgram& program, const OptimizerShard* optimizer, int layers) {
             Plan of_some = of_all;  // has other numbers of buffers
             store_of(of_some.units[program.unit], layers);
             return MemoryOfProgram(of_some,
                                    CompileStep(of_some, program.rank, problem.shape, Purpose::kTrain),
                                    problem.shape, optimizer);
           }});
}

}  // namespace medley
