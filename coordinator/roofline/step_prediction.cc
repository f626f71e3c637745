#include "coordinator/roofline/step_prediction.h"

#include <algorithm>
#include <limits>
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
    largest = std::max(largest, StageParameters(run, stage));
  }
  return largest;
}

double EndsSeconds(const PipelineTimes& times) {
  return times.blocks.embedding.Seconds() + times.blocks.head.Seconds();
}

void Lengthen(PassTimes& pass, double factor) {
  pass.forward_seconds *= factor;
  pass.backward_seconds *= factor;
}

// After so many groups of as many micro-batches as there are stages, each further one takes as long as the one before:
// what is longer need not be simulated.
constexpr int kSteadyGroups = 3;

}  // namespace

PipelineTimes PipelineTimesOf(const CalibratedDevice& device, const TrainingRun& run) {
  return {RooflineTimes(device, run), run.stages > 1 ? MessageSeconds(device, run) : 0};
}

PipelineProblem PipelineOf(const PipelineTimes& times, const TrainingRun& run) {
  PipelineProblem result;
  PlanningProblem& problem = result.problem;
  problem.shape = run.shape;
  problem.shape.global_batch_sequences = run.MicroBatches() * run.micro_batch_sequences;
  problem.precision = Precision::kBf16;
  problem.micro_batch_sizes = {run.micro_batch_sequences};
  for (int stage = 0; stage < run.stages; ++stage) {
    problem.devices.push_back({.name = absl::StrCat("stage", stage),
                               .kind = "stage",
                               .processor = stage,
                               .activations = Dtype::kBf16,
                               .times = {times.blocks}});
    result.plan.units.push_back({.devices = {problem.devices.back().name}, .activations = Dtype::kBf16});
  }
  // Nothing shares a link here: its whole time may be latency.
  const LinkModel line = LinkModel::Line(times.message_seconds, std::numeric_limits<double>::infinity());
  problem.links = DeviceLinks(run.stages, {line, {}});
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

absl::StatusOr<double> PipelineSeconds(const PipelineTimes& times, const TrainingRun& run) {
  // One stage waits for nobody.
  if (run.stages == 1) {
    return run.MicroBatches() * (run.shape.model.layers * times.blocks.layer.Seconds() + EndsSeconds(times));
  }
  const auto simulated = [&](int micro_batches) {
    TrainingRun shorter = run;
    shorter.shape.global_batch_sequences = micro_batches * run.micro_batch_sequences * run.replicas;
    const PipelineProblem pipeline = PipelineOf(times, shorter);
    return PredictStepSeconds(pipeline.problem, pipeline.plan);
  };
  const int group = run.stages, micro_batches = run.MicroBatches();
  if (micro_batches < kSteadyGroups * group * 2 || micro_batches % group != 0)
    return simulated(micro_batches);
  ASSIGN_OR_RETURN(const double seconds, simulated(kSteadyGroups * group));
  ASSIGN_OR_RETURN(const double with_one_more, simulated((kSteadyGroups + 1) * group));
  return seconds + (with_one_more - seconds) * (micro_batches / group - kSteadyGroups);
}

double PipelineCounts::Seconds(const PipelineTimes& times) const {
  return layers * times.blocks.layer.Seconds() + ends * EndsSeconds(times) + messages * times.message_seconds;
}

absl::StatusOr<PipelineCounts> PipelineCountsOf(const PipelineTimes& times, const TrainingRun& run) {
  if (run.stages == 1) {
    return PipelineCounts{1.0 * run.MicroBatches() * run.shape.model.layers, 1.0 * run.MicroBatches(), 0};
  }
  constexpr double kStep = 1e-3;
  PipelineTimes longer_layers = times, longer_ends = times;
  Lengthen(longer_layers.blocks.layer, 1 + kStep);
  Lengthen(longer_ends.blocks.embedding, 1 + kStep);
  Lengthen(longer_ends.blocks.head, 1 + kStep);
  ASSIGN_OR_RETURN(const double seconds, PipelineSeconds(times, run));
  ASSIGN_OR_RETURN(const double with_longer_layers, PipelineSeconds(longer_layers, run));
  ASSIGN_OR_RETURN(const double with_longer_ends, PipelineSeconds(longer_ends, run));
  const double layers = (with_longer_layers - seconds) / kStep, ends = (with_longer_ends - seconds) / kStep;
  return PipelineCounts{layers / times.blocks.layer.Seconds(), ends / EndsSeconds(times),
                        (seconds - layers - ends) / times.message_seconds};
}

double AfterPipelineSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  const double parameters = LargestStageParameters(run);
  return GradientSumSeconds(device, run, parameters) + UpdateSeconds(device, run, parameters) +
         device.calibration.step_seconds;
}

absl::StatusOr<double> RooflineStepSeconds(const CalibratedDevice& device, const TrainingRun& run) {
  ASSIGN_OR_RETURN(const double pipeline, PipelineSeconds(PipelineTimesOf(device, run), run));
  return pipeline + AfterPipelineSeconds(device, run);
}

absl::StatusOr<PredictedSeconds> PredictRooflineStep(const CalibratedDevice& device, const TrainingRun& run,
                                                     PredictionBasis basis) {
  ASSIGN_OR_RETURN(const double seconds, RooflineStepSeconds(device, run));
  return PredictedSeconds{seconds, LearntErrorBar(basis)};
}

}  // namespace medley
