#include "coordinator/planner/faster_shares.h"

#include <algorithm>
#include <utility>

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
  Plan plan;
  plan.units.push_back({.devices = {problem.devices[device].name},
                        .chunks = {{0, problem.shape.model.blocks()}},
                        .activations = problem.devices[device].activations});
  plan.routes.push_back({{0}, 1, problem.micro_batch_sizes.front()});
  return FitsMemory(OnDevices(problem, {device}), plan);
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
    for (int degree = 2; degree <= of.most_on_host && SharingObjection(model, degree).empty(); degree *= 2) {
      const double seconds = LayerSeconds(problem, {host->begin(), host->begin() + degree});
      if (seconds > kWorthwhile * half_as_many_seconds) break;
      half_as_many_seconds = seconds;
      for (const ModelShare& of_rank : EvenShares(model, degree)) {
        const ModelShare share = AtOrigin(of_rank);
        const auto asked = [&](const WantedShare& other) {
          return other.device == of.first() && other.share == share;
        };
        if (!CostsOf(first, model, share) && std::none_of(wanted.begin(), wanted.end(), asked))
          wanted.push_back({of.first(), share});
      }
    }
  }
  return wanted;
}

}  // namespace medley
