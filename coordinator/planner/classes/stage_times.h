#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "coordinator/planner/classes/stage_kind.h"
#include "coordinator/planner/classes/stage_messages.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/base/bytes.h"

namespace medley {

// What the passes of stages take, whatever each does to need less memory and whether it fits or not: blocks as they were measured, what
// is made again, and copies to and from host memory. These go both ways beside what is computed, so a pass takes what computing
// takes, or copying if that is longer. Keeps a reference to the problem.
class StageTimes {
 public:
  // `optimizer_share`: of the optimizer's state of what a stage of one unit holds, what it carries itself (ZeRO-1); 1: all of it. Of more
  // units each carries a part of that, where plans may save memory. `ways`: that devices of the problem share.
  StageTimes(const PlanningProblem& problem, std::vector<DeviceClass> classes, const SharedWays& ways,
             double optimizer_share, const TableScope& scope);

  const PlanningProblem& problem() const { return problem_; }
  const std::vector<DeviceClass>& classes() const { return classes_; }
  const std::vector<StageKind>& kinds() const { return kinds_; }
  const TableScope& scope() const { return scope_; }
  double optimizer_share() const { return optimizer_share_; }
  double optimizer_share(const StageForm& stage) const;

  double ForwardSeconds(const StageForm& stage) const;   // with copies that take longer
  double BackwardSeconds(const StageForm& stage) const;  // likewise, and with what it recomputes
  // Of that, gradients of weights, which may be put off where nothing is recomputed; without copies.
  double WeightGradientSeconds(const StageForm& stage) const;
  double PassSeconds(const StageForm& stage) const { return ForwardSeconds(stage) + BackwardSeconds(stage); }
  // Of that, what a micro-batch has to wait for: a stage that waits for a gradient makes its last layer again meanwhile.
  double WaySeconds(const StageForm& stage) const;
  double MessageSeconds(int from, int to, int size, bool same_host) const {
    return messages_.Seconds(from, to, size, same_host);
  }
  double LeastMessageSeconds(int from, int to, int size) const {
    return std::min(MessageSeconds(from, to, size, false), MessageSeconds(from, to, size, true));
  }
  // What forwards of a micro-batch keep.
  Bytes KeptBytes(const StageForm& stage) const;
  // Parameters of a stage, of all its ranks together.
  int64_t Parameters(const StageForm& stage) const;
  // Of the first and the last stage of a route; of one stage once.
  int64_t TiedParameters() const { return tied_parameters_; }
  double UpdateSeconds(const StageForm& stage) const;  // with what it copies at the end of a step

 private:
  // Of what it recomputes, what goes on while it waits for a gradient.
  double AheadSeconds(const StageForm& stage) const;
  bool CountsCopies(const StageForm& stage) const {
    return stage.saving.window_layers > 0 && !scope_.of_bounds;
  }
  // What goes to host memory and comes back of a micro-batch; 0 if it stays on the device.
  double StoredActivationsSeconds(const StageForm& stage) const;

  const PlanningProblem& problem_;
  const std::vector<DeviceClass> classes_;
  const double optimizer_share_;
  const TableScope scope_;
  const std::vector<StageKind> kinds_;
  const StageMessages messages_;
  int64_t tied_parameters_ = 0, embedding_parameters_ = 0, layer_parameters_ = 0, head_parameters_ = 0;
};

}  // namespace medley
