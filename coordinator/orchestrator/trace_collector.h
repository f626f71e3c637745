#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/agent.pb.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// Puts the predicted times, where they are known, and the measured times of a step's instructions beside each
// other, once all units have sent theirs. Not thread-safe.
class TraceCollector {
 public:
  TraceCollector(std::string job_id, const PlannedJob& planned, const TrainingShape& shape);
  // Of a plan of which it is not known any more what was predicted.
  TraceCollector(std::string job_id, const Plan& plan, const TrainingShape& shape);

  // The trace of `measured.step` when this was the last unit's; else nothing. What does not fit the program
  // is dropped.
  std::optional<v1::Trace> Add(int unit, const v1::MeasuredStep& measured);

 private:
  const std::string job_id_;
  const Plan plan_;
  const TrainingShape shape_;
  std::vector<RankPrediction> predictions_;  // by rank; empty: none are known
  std::vector<StepProgram> programs_;        // by rank; empty until something was measured
  std::map<uint32_t, std::map<int, v1::MeasuredStep>> waiting_;  // by step, unit
};

}  // namespace medley
