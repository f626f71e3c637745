#pragma once
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/roofline/error_bar.h"
#include "coordinator/roofline/pass_seconds.h"

// How long a step of a run takes: its pipeline through Medley's own predictor, and what follows it.
namespace medley {

// What a pipeline's time is made of.
struct PipelineTimes {
  BlockTimes blocks;           // of one micro-batch on a stage, exchanges among its ranks included
  double message_seconds = 0;  // between two stages, of one micro-batch
};
PipelineTimes PipelineTimesOf(const CalibratedDevice& device, const TrainingRun& run);

// One replica of the pipeline, each device of which stands for all ranks of a stage. Gradients are neither summed nor
// applied in it.
struct PipelineProblem {
  PlanningProblem problem;
  Plan plan;
};
PipelineProblem PipelineOf(const PipelineTimes& times, const TrainingRun& run);

// The pipeline's part of a step. PredictStep's errors.
absl::StatusOr<double> PipelineSeconds(const PipelineTimes& times, const TrainingRun& run);

// How often what a pipeline's time is made of lies on its critical path. The time is piecewise linear in these, so that
// it is their sum exactly where they were found, and nearby as long as the path stays the same: what a fit needs, which
// would ask the simulator too often.
struct PipelineCounts {
  double layers = 0;  // a layer's forward and backward
  double ends = 0;    // the embedding's and the head's
  double messages = 0;

  double Seconds(const PipelineTimes& times) const;
};
// PredictStep's errors.
absl::StatusOr<PipelineCounts> PipelineCountsOf(const PipelineTimes& times, const TrainingRun& run);

// What follows the pipeline: gradients are summed and applied on the stage with the most parameters.
double AfterPipelineSeconds(const CalibratedDevice& device, const TrainingRun& run);

// A whole step. PredictStep's errors.
absl::StatusOr<double> RooflineStepSeconds(const CalibratedDevice& device, const TrainingRun& run);

struct PredictedSeconds {
  double seconds = 0;
  ErrorBar error;  // relative
};
// The same with how far such predictions were off. `basis`: where the calibration comes from.
absl::StatusOr<PredictedSeconds> PredictRooflineStep(const CalibratedDevice& device, const TrainingRun& run,
                                                     PredictionBasis basis);

}  // namespace medley
