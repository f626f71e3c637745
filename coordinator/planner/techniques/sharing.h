#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"

// Units of several devices of one host, for models of which nothing fits with one device a unit.
namespace medley {

struct SharedUnit {
  std::vector<int> devices;        // of a host, indices into PlanningProblem::devices
  std::vector<ModelShare> shares;  // parallel to them
  bool sequence_parallel = false;
};

enum class Sharing : uint8_t {
  kEven,
  // Units of unlike devices in proportion to how fast each is with an even share; those of devices alike, or
  // of which one has not been measured with that, evenly.
  kBySpeed,
};

// The devices of each host in units of `degree`, 2 or more: first those of one kind together, in their order,
// then what is left of the kinds. What is then left of a host is in no unit. None if the model cannot be
// shared so. Pure.
std::vector<SharedUnit> UnitsOfDegree(const PlanningProblem& problem, int degree, Sharing sharing);

// Shares of the width in proportion to `speeds`, each positive, as near as whole heads, columns and rows
// allow: columns and rows in sixteens where there are many. `speeds.size()` ranks without a
// SharingObjection.
std::vector<ModelShare> SharesBySpeed(const ModelConfig& config, const std::vector<double>& speeds);

// As a plan has it, with these blocks alone and whole micro-batches.
Unit UnitOf(const PlanningProblem& problem, const SharedUnit& shared, BlockRange blocks);

// A problem whose devices are units of another one's, all shared alike: named by their devices, with the
// times of the slowest rank and what the ranks sum within passes, micro-batches being cut into as many parts as is best
// (exchange_parts.h), and links that carry a part for each rank.
// Good enough to search by; what is found is predicted with the devices' own problem.
struct UnitProblem {
  PlanningProblem problem;
  std::vector<SharedUnit> units;  // parallel to problem.devices
};
// `units` are shared alike. Where a share has not been measured, it takes no time and the ops hold nothing.
UnitProblem MakeUnitProblem(const PlanningProblem& problem, std::vector<SharedUnit> units);

// What a unit of devices of `problem` costs, as MakeUnitProblem has it but for whole micro-batches.
DeviceCost CostOfUnit(const PlanningProblem& problem, const SharedUnit& unit);

// Units that are planned with together at a degree: all of them shared evenly, and those of each other way of
// sharing by speed. All are shared alike, so that replicas sum their gradients as devices do; others are valid
// and are not searched.
std::vector<std::vector<SharedUnit>> WaysToShare(const PlanningProblem& problem, int degree);

// What the ranks of a unit of `degree` such devices would have evenly that the device has not been measured with: AtOrigin, each once.
std::vector<ModelShare> UnmeasuredShares(const ModelConfig& model, const DeviceCost& device, int degree);

// The greatest degree worth trying: the most devices of a host.
int MostDevicesOfHost(const PlanningProblem& problem);

}  // namespace medley
