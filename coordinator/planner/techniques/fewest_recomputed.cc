#include "coordinator/planner/techniques/fewest_recomputed.h"

#include <algorithm>
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

// How many of the layers of a rank's unit may keep all, by what the rank does and the room that it has.
class KeptLayers {
 public:
  // `plan` recomputes all layers of each unit that recomputes, and outlives this, as the problem does.
  KeptLayers(const PlanningProblem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), device_by_name_(DevicesByName(problem)) {
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
    std::vector<std::pair<DeviceRoom, int>>& known = alike->second.kept;
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& of) { return of.first == room; });
    if (same != known.end()) return same->second;
    const int layers = LayersOf(unit, model);
    StepProgram& program = alike->second.program;
    const int kept = GreatestThat(0, layers - 1, [&](int keeps) {
      program.buffers.recomputed_layers = layers - keeps;
      return Fits(MemoryOfProgram(plan_, program, problem_.shape, optimizer ? &*optimizer : nullptr), room);
    });
    known.push_back({room, kept});
    return kept;
  }

 private:
  struct Alike {
    StepProgram program;
    std::optional<OptimizerShard> optimizer;  // which does not follow what is recomputed
    std::vector<std::pair<DeviceRoom, int>> kept;
  };
  const PlanningProblem& problem_;
  const Plan& plan_;
  const std::unordered_map<std::string, int> device_by_name_;
  std::vector<Rank> stand_ins_;  // empty: each rank tells of itself
  std::map<Rank, Alike> alike_;
};

}  // namespace

Plan WithFewestRecomputed(const PlanningProblem& problem, Plan plan) {
  bool any = false;
  for (Unit& unit : plan.units) {
    unit.recomputed_layers = 0;
    any = any || unit.recompute != Recompute::kNone;
  }
  if (!any) return plan;
  const Plan with_all = plan;
  KeptLayers kept_layers(problem, with_all);
  Rank rank = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = with_all.units[u];
    const int layers = LayersOf(unit, problem.shape.model);
    int kept = unit.recompute == Recompute::kNone ? 0 : std::max(0, layers - 1);
    const std::vector<ModelShare> shares = SharesOf(unit, problem.shape.model);
    for (size_t member = 0; member < unit.devices.size(); ++member, ++rank) {
      if (kept > 0) kept = std::min(kept, kept_layers.Of(rank, unit, shares[member], unit.devices[member]));
    }
    if (kept > 0) plan.units[u].recomputed_layers = layers - kept;
  }
  return plan;
}

}  // namespace medley
