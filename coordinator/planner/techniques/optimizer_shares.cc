#include "coordinator/planner/techniques/optimizer_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// What is measured of alike devices differs by so much, so weights may as well.
constexpr double kAlike = 0.05;
// Of the fastest unit, where no smaller numbers come near enough.
constexpr int kMostWeight = 100;
// Lowering weights looks at all holders for each of them, again and again.
constexpr int kMostLowered = 32;

// How fast each unit updates the same blocks, relative to each other; empty: that is not known of some, or takes no time.
std::vector<double> UpdateSpeeds(const PlanningProblem& problem, const Plan& plan) {
  const ModelConfig& model = problem.shape.model;
  const std::unordered_map<std::string, int> device_by_name = DevicesByName(problem);
  std::vector<double> speeds;
  for (const Unit& unit : plan.units) {
    const std::vector<ModelShare> shares = SharesOf(unit, model);
    double seconds = 0;  // of a layer, of the slowest rank
    for (size_t member = 0; member < unit.devices.size(); ++member) {
      const auto device = device_by_name.find(unit.devices[member]);
      if (device == device_by_name.end()) return {};
      const std::optional<RankCosts> costs = CostsOf(problem.devices[device->second], model, shares[member]);
      if (!costs || costs->update_seconds_per_parameter <= 0) return {};
      const int64_t elements =
          SegmentElements(LocalModel(model, shares[member]), SegmentOfBlock(BlockOfLayer(0)));
      seconds = std::max(seconds, static_cast<double>(elements) * costs->update_seconds_per_parameter);
    }
    speeds.push_back(1 / seconds);
  }
  return speeds;
}

// Whether each unit holds what others hold; empty: wherever several do, they are about as fast.
std::vector<bool> UnlikeHolders(const ModelConfig& model, const Plan& plan,
                                const std::vector<double>& speeds) {
  std::vector<bool> shares(plan.units.size(), false);
  bool unlike = false;
  for (SegmentId segment = 0; segment < SegmentCount(model); ++segment) {
    if (SegmentElements(model, segment) == 0) continue;
    const std::vector<UnitId> holders = HoldersOf(plan, model, segment);
    if (holders.size() < 2) continue;
    double slowest = std::numeric_limits<double>::infinity(), fastest = 0;
    for (const UnitId holder : holders) {
      shares[holder.value()] = true;
      slowest = std::min(slowest, speeds[holder.value()]);
      fastest = std::max(fastest, speeds[holder.value()]);
    }
    unlike = unlike || slowest < (1 - kAlike) * fastest;
  }
  return unlike ? shares : std::vector<bool>();
}

// The smallest whole numbers that come near the speeds of those that share; 1 of the others.
std::vector<int> WeightsBySpeed(const std::vector<double>& speeds, const std::vector<bool>& shares) {
  double fastest = 0;
  for (size_t u = 0; u < speeds.size(); ++u) {
    if (shares[u]) fastest = std::max(fastest, speeds[u]);
  }
  std::vector<int> weights;
  bool near = false;
  for (int most = 1; most <= kMostWeight && !near; ++most) {
    weights.assign(speeds.size(), 1);
    near = true;
    for (size_t u = 0; u < speeds.size(); ++u) {
      if (!shares[u]) continue;
      const double exact = most * speeds[u] / fastest;
      weights[u] = std::max(1, static_cast<int>(std::lround(exact)));
      near = near && std::abs(weights[u] / exact - 1) <= kAlike;
    }
  }
  return weights;
}

}  // namespace

Plan WithOptimizerSharesBySpeed(const PlanningProblem& problem, const Plan& plan) {
  if (!plan.shards_optimizer) return plan;
  const std::vector<double> speeds = UpdateSpeeds(problem, plan);
  if (speeds.empty()) return plan;
  const std::vector<bool> shares = UnlikeHolders(problem.shape.model, plan, speeds);
  if (shares.empty()) return plan;
  const std::vector<int> weights = WeightsBySpeed(speeds, shares);
  Plan by_speed = plan;
  for (size_t u = 0; u < weights.size(); ++u) by_speed.units[u].optimizer_weight = weights[u];
  by_speed = WithFewestRecomputed(problem, std::move(by_speed));
  if (FitsMemory(problem, by_speed)) return by_speed;
  if (RankCount(plan) > kMostLowered) return plan;
  std::vector<UnitSaving> savings;
  for (const Unit& unit : plan.units)
    savings.push_back({.recompute = unit.recompute, .window_layers = unit.window_layers});
  std::optional<Plan> lowered = OptimizerSharding(problem, plan).Fit(savings, weights);
  return lowered ? WithFewestRecomputed(problem, *std::move(lowered)) : plan;
}

}  // namespace medley
