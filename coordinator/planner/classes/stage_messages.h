#pragma once
#include <vector>

#include "coordinator/planner/classes/stage_kind.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/shared_ways.h"

namespace medley {

// What one activation or gradient takes from a stage of one kind to one of another, which then has all of it on each rank. Each
// rank sends part of it. Other units on the same hosts are taken to send theirs at the same time, as alike routes do where a host's
// devices hold the same blocks, so cards and ways that they share are slower by that; of bounds messages are as they are alone.
class StageMessages {
 public:
  StageMessages(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                const std::vector<StageKind>& kinds, const SharedWays& ways, const TableScope& scope);

  double Seconds(int from, int to, int size, bool same_host) const {
    return seconds_[(static_cast<size_t>(from) * kinds_ + to) * 2 + (same_host ? 1 : 0)][size];
  }

 private:
  const size_t kinds_;
  std::vector<std::vector<double>> seconds_;  // [(from * kinds + to) * 2 + same host][size]
};

}  // namespace medley
