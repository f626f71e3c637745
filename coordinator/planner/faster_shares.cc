#include "coordinator/planner/faster_shares.h"

#include <algorithm>
#include <utility>

#include "coordinator/planner/classes/stage_kind.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"

namespace medley {
namespace {

// Of a micro-batch's time on half as many devices, what twice as many may take.
constexpr double kWorthwhile = 0.75;
// With so many sequences for each device that holds all blocks nothing is gained by less to hold.
constexpr int kEnoughSequences = 2;

bool HoldsAll(const PlanningProblem& problem, int device) {
  const PlanningProblem alone = OnDevices(problem, {device});
  const absl::StatusOr<Plan> plan =
      EvenGrid(alone, /*stages=*/1, /*degree=*/1, problem.micro_batch_sizes.front());
  return plan.ok() && FitsMemory(alone, *plan);
}

// Of a layer of the largest micro-batch on these devices of a host, with an equal part of what whole blocks take each.
double LayerSeconds(const PlanningProblem& problem, const std::vector<int>& devices) {
  const int degree = static_cast<int>(devices.size());
  PlanningProblem alone = OnDevices(problem, devices);
  SharedUnit unit{.shares = EvenShares(problem.shape.model, degree)};
  for (int member = 0; member < degree; ++member) {
    DeviceCost& device = alone.devices[member];
    std::vector<BlockTimes> times = device.times;
    for (BlockTimes& of : times) {
      for (const auto seconds : kAllPassTimes) of.layer.*seconds /= degree;
    }
    device.shares = {
        {.share = AtOrigin(unit.shares[member]), .room = device.room, .times = std::move(times)}};
    unit.devices.push_back(member);
  }
  return CostOfUnit(alone, unit).times.back().layer.Seconds();
}

}  // namespace

std::vector<WantedShare> FasterShares(const PlanningProblem& problem) {
  const ModelConfig& model = problem.shape.model;
  const auto devices = static_cast<int64_t>(problem.devices.size());
  const bool enough = problem.shape.global_batch_sequences >= kEnoughSequences * devices;
  std::vector<WantedShare> wanted;
  for (const DeviceClass& of : DeviceClassesOf(problem)) {
    const DeviceCost& first = problem.devices[of.first()];
    if (!first.has_own_memory || first.times.empty() || (enough && HoldsAll(problem, of.first()))) continue;
    const auto host = std::max_element(of.hosts.begin(), of.hosts.end(),
                                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
    double half_as_many_seconds = first.times.back().layer.Seconds();
    for (int degree = 2; degree <= of.most_on_host && CanShareByClasses(model, degree); degree *= 2) {
      const double seconds = LayerSeconds(problem, {host->begin(), host->begin() + degree});
      if (seconds > kWorthwhile * half_as_many_seconds) break;
      half_as_many_seconds = seconds;
      for (const ModelShare& share : UnmeasuredShares(model, first, degree))
        wanted.push_back({of.first(), share});
    }
  }
  return wanted;
}

}  // namespace medley
