#include "coordinator/roofline/step_prediction.h"

#include <catch2/catch.hpp>
#include <vector>

#include "coordinator/predictor/predict.h"

namespace medley {
namespace {

TrainingRun Pipeline(int stages, int micro_batches) {
  TrainingRun run;
  run.shape.model = {
      .layers = 8, .hidden = 1024, .heads = 16, .feed_forward = 4096, .vocabulary = 51200, .context = 512};
  run.shape.sequence = 512;
  run.shape.global_batch_sequences = micro_batches;
  run.stages = stages;
  return run;
}

// A layer 1 s forward and 2 s backward, the ends nothing.
PipelineTimes Unit(double message_seconds) {
  return {{.embedding = {0, 0, 0}, .layer = {1, 2, 0}, .head = {0, 0, 0}}, message_seconds};
}

double Seconds(const PipelineTimes& times, const TrainingRun& run) {
  const absl::StatusOr<double> seconds = PipelineSeconds(times, run);
  REQUIRE(seconds.ok());
  return *seconds;
}

TEST_CASE("a pipeline of equal stages takes as many stage times as micro-batches and stages less one") {
  const int stages = GENERATE(1, 2, 4);
  const int micro_batches = GENERATE(4, 8);
  CHECK(Seconds(Unit(0), Pipeline(stages, micro_batches)) ==
        Approx((micro_batches + stages - 1) * 8.0 / stages * 3));
}

TEST_CASE("interleaving cuts the bubble by the number of chunks") {
  TrainingRun run = Pipeline(4, 8);
  run.chunks_per_stage = 2;
  CHECK(Seconds(Unit(0), run) == Approx(8 * 2 * 3 + 3.0 / 2 * 2 * 3));
}

TEST_CASE("layers of chunks are as even as they go, or as said") {
  TrainingRun run = Pipeline(3, 3);
  CHECK(run.LayersOfChunk(0) == 3);
  CHECK(run.LayersOfChunk(1) == 3);
  CHECK(run.LayersOfChunk(2) == 2);
  run.chunk_layers = {2, 2, 4};
  const PipelineProblem pipeline = PipelineOf(Unit(0), run);
  CHECK(pipeline.plan.units[0].chunks[0] == BlockRange{0, 3});
  CHECK(pipeline.plan.units[1].chunks[0] == BlockRange{3, 5});
  CHECK(pipeline.plan.units[2].chunks[0] == BlockRange{5, 10});
  // The longest stage is passed by all micro-batches, the others once.
  CHECK(Seconds(Unit(0), run) == Approx(3 * 12 + 2 * 6));
}

TEST_CASE("a long pipeline takes what the whole simulation says") {
  const int stages = GENERATE(2, 4);
  const int chunks = GENERATE(1, 2);
  TrainingRun run = Pipeline(stages, 16 * stages);
  run.chunks_per_stage = chunks;
  if (chunks == 1) run.chunk_layers = stages == 2 ? std::vector<int>{3, 5} : std::vector<int>{1, 3, 2, 2};
  PipelineTimes times = Unit(0.3);
  times.blocks.embedding = {0.2, 0.1, 0};
  times.blocks.head = {0.5, 0.7, 0};
  const PipelineProblem whole = PipelineOf(times, run);
  CHECK(Seconds(times, run) == Approx(*PredictStepSeconds(whole.problem, whole.plan)).epsilon(1e-4));
}

TEST_CASE("what lies on the critical path adds up to the simulated time, also beside where it was found") {
  const int stages = GENERATE(1, 2, 4);
  const TrainingRun run = Pipeline(stages, 8);
  PipelineTimes times = Unit(stages > 1 ? 0.1 : 0);
  times.blocks.embedding = {0.2, 0.1, 0};
  times.blocks.head = {0.5, 0.7, 0};
  const absl::StatusOr<PipelineCounts> counts = PipelineCountsOf(times, run);
  REQUIRE(counts.ok());
  CHECK(counts->Seconds(times) == Approx(Seconds(times, run)));
  times.blocks.layer = {1.02, 2.04, 0};
  times.blocks.head = {0.51, 0.714, 0};
  times.message_seconds *= 1.1;
  CHECK(counts->Seconds(times) == Approx(Seconds(times, run)).epsilon(1e-3));
}

TEST_CASE("a step is its pipeline and what follows it, and grows with the batch") {
  const CalibratedDevice device{{.kind = "k",
                                 .matmul_flops_per_second = 300e12,
                                 .memory_bytes_per_second = 2e12,
                                 .node_link_bytes_per_second = 300e9,
                                 .memory = GiB(80)},
                                {}};
  TrainingRun run = Pipeline(4, 8);
  run.replicas = 2;
  const absl::StatusOr<double> four = RooflineStepSeconds(device, run);
  run.shape.global_batch_sequences = 16;
  const absl::StatusOr<double> eight = RooflineStepSeconds(device, run);
  REQUIRE(four.ok());
  REQUIRE(eight.ok());
  CHECK(*four == Approx(Seconds(PipelineTimesOf(device, Pipeline(4, 4)), Pipeline(4, 4)) +
                        AfterPipelineSeconds(device, run)));
  CHECK(*eight > *four);
  const absl::StatusOr<PredictedSeconds> with_bar =
      PredictRooflineStep(device, run, PredictionBasis::kOtherKinds);
  REQUIRE(with_bar.ok());
  CHECK(with_bar->seconds == *eight);
  CHECK(with_bar->error.wide == LearntErrorBar(PredictionBasis::kOtherKinds).wide);
}

}  // namespace
}  // namespace medley
