#pragma once
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/roofline/pass_seconds.h"

// How long a step of a run takes: its pipeline through Medley's own predictor, and what follows it.
namespace medley {

// One replica of the pipeline, each device of which stands for all ranks of a stage: what they exchange within
// passes is in the passes' times. Gradients are neither summed nor applied in it.
struct PipelineProblem {
  PlanningProblem problem;
  Plan plan;
};
PipelineProblem PipelineOf(const CalibratedDevice& device, const TrainingRun& run);

// The pipeline's part of a step. PredictStep's errors.
absl::StatusOr<double> PipelineSeconds(const CalibratedDevice& device, const TrainingRun& run);

// The same in closed form: stages are as long as the longest, messages wait for nobody. Not exact; quick, and moves as
// the former does when coefficients change a little, which is what a fit needs.
double ApproximatePipelineSeconds(const CalibratedDevice& device, const TrainingRun& run);

// What follows the pipeline: gradients are summed and applied on the stage with the most parameters.
double AfterPipelineSeconds(const CalibratedDevice& device, const TrainingRun& run);

// A whole step. PredictStep's errors.
absl::StatusOr<double> RooflineStepSeconds(const CalibratedDevice& device, const TrainingRun& run);

}  // namespace medley
