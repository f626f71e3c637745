#include "coordinator/roofline/step_prediction.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The most parameters that a rank of one stage has.
double LargestStageParameters(const TrainingRun& run) {
  double largest = 0;
  for (int stage = 0; stage < run.stages; ++stage) {
    double parameters = 0;
    for (int c = 0; c < run.chunks_per_stage; ++c) {
      parameters += run.LayersOfChunk(c * run.stages + stage) * LayerParameters(run);
    }
    if (stage == 0 || stage == run.stages - 1) parameters += EmbeddingParameters(run);
    if (run.stages == 1 && !run.shape.model.tied_head) parameters += EmbeddingParameters(run);
    largest = std::max(largest, parameters);
  }
  return largest;
}

}  // namespace

PipelineProblem PipelineOf(const CalibratedDevice& device, const TrainingRun& run) {
  PipelineProblem result;
  PlanningProblem& problem = result.problem;
  problem.shape = run.shape;
  problem.shape.global_batch_sequences = run.MicroBatches() * run.micro_batch_sequences;
  problem.precision = Precision::kBf16;
  problem.micro_batch_sizes = {run.micro_batch_sequences};
  const BlockTimes times = RooflineTimes(device, run);
  // Messages are of whole rows in 16 bits; each rank sends its part.
  const double bytes = 2 * run.Rows() * run.shape.model.hidden;
  const double latency = device.calibration.message_seconds;
  const LinkModel line = LinkModel::Line(latency, bytes / (MessageSeconds(device, run) - latency));
  for (int stage = 0; stage < run.stages; ++stage) {
    problem.devices.push_back({.name = absl::StrCat("stage", stage),
                               .kind = device.figures.kind,
                               .processor = stage,
                               .room = {.memory = device.figures.memory},
                               .activations = Dtype::kBf16,
                               .times = {times}});
    result.plan.units.push_back({.devices = {problem.devices.back().name}, .activations = Dtype::kBf16});
  }
  problem.links.assign(run.stages, std::vector<LinkCost>(run.stages, {line, line}));
  Route route{.micro_batches = run.MicroBatches(), .micro_batch_sequences = run.micro_batch_sequences};
  BlockId next = 0;
  for (int chunk = 0; chunk < run.Chunks(); ++chunk) {
    const int layers = run.LayersOfChunk(chunk);
    const BlockId end = next + layers + (chunk == 0 ? 1 : 0) + (chunk == run.Chunks() - 1 ? 1 : 0);
    result.plan.units[chunk % run.stages].chunks.push_back({next, end});
    route.units.push_back(chunk % run.stages);
    next = end;
  }
  result.plan.routes = {route};
  result.plan.schedule =
      run.chunks_per_stage > 1 && run.stages > 1 ? Schedule::kInterleaved1F1B : run.schedule;
  return result;
}

absl::StatusOr<double> PipelineSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  const PipelineProblem pipeline = PipelineOf(device, run);
  return PredictStepSeconds(pipeline.problem, pipeline.plan);
}

double ApproximatePipelineSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  const BlockTimes times = RooflineTimes(device, run);
  const double message = run.stages > 1 ? MessageSeconds(device, run) : 0;
  double longest = 0, sum = 0;
  for (int stage = 0; stage < run.stages; ++stage) {
    double seconds = 2 * message * run.chunks_per_stage;
    for (int c = 0; c < run.chunks_per_stage; ++c) {
      seconds += run.LayersOfChunk(c * run.stages + stage) * times.layer.Seconds();
    }
    if (stage == 0) seconds += times.embedding.Seconds();
    if (stage == run.stages - 1) seconds += times.head.Seconds();
    longest = std::max(longest, seconds);
    sum += seconds;
  }
  return (run.MicroBatches() - 1.0 / run.chunks_per_stage) * longest + sum / run.chunks_per_stage;
}

double AfterPipelineSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  const double parameters = LargestStageParameters(run);
  return GradientSumSeconds(device, run, parameters) + UpdateSeconds(device, run, parameters) +
         device.calibration.step_seconds;
}

absl::StatusOr<double> RooflineStepSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  ASSIGN_OR_RETURN(const double pipeline, PipelineSeconds(device, run));
  return pipeline + AfterPipelineSeconds(device, run);
}

}  // namespace medley
