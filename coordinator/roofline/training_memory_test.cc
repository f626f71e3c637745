#include "coordinator/roofline/training_memory.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

constexpr double kGibibyte = 1 << 30;

// The 22 and 175 billion parameters of Korthikanti et al. 2022.
TrainingRun Published(int layers, int hidden, int heads, int stages, int chunks, int micro_batch) {
  TrainingRun run;
  run.shape.model = {.layers = layers,
                     .hidden = hidden,
                     .heads = heads,
                     .feed_forward = 4 * hidden,
                     .vocabulary = 51200,
                     .context = 2048};
  run.shape.sequence = 2048;
  run.shape.global_batch_sequences = 64;
  run.micro_batch_sequences = micro_batch;
  run.ranks = 8;
  run.stages = stages;
  run.chunks_per_stage = chunks;
  return run;
}

TEST_CASE("activations are those that Korthikanti et al. publish for their figure 1") {
  // 59.25 GiB; 66.84 GiB with (1 + 7 / 24) times the layers of one pass, counted here in whole chunks.
  CHECK(MemoryOfStage(Published(48, 6144, 64, 1, 1, 4), 0).kept_bytes / kGibibyte == Approx(59.25));
  CHECK(MemoryOfStage(Published(96, 12288, 96, 8, 3, 1), 0).kept_bytes / kGibibyte ==
        Approx(66.84).epsilon(0.05));
}

TEST_CASE("stages nearer to the end keep less, and recomputing keeps a layer and inputs") {
  TrainingRun run = Published(96, 12288, 96, 8, 1, 1);
  for (int stage = 1; stage < 8; ++stage) {
    CHECK(MemoryOfStage(run, stage).kept_bytes < MemoryOfStage(run, stage - 1).kept_bytes);
  }
  const double one_layer = KeptBytesOfLayer(run);
  run.recompute = Recompute::kLayers;
  CHECK(MemoryOfStage(run, 0).kept_bytes == Approx(96 * 2.0 * 2048 * 12288 + one_layer));
}

TEST_CASE("sequence parallelism shares what ranks otherwise all keep, selective recomputing drops scores") {
  TrainingRun run = Published(48, 6144, 64, 1, 1, 4);
  run.sequence_parallel = true;
  const double stream = 4.0 * 2048 * 6144;
  CHECK(KeptBytesOfLayer(run) == Approx(stream * (34.0 / 8 + 5.0 * 64 * 2048 / 6144 / 8)));
  run.recompute = Recompute::kAllButAttention;
  CHECK(KeptBytesOfLayer(run) == Approx(stream * 34 / 8));
}

TEST_CASE("memory is state, activations and what is reserved") {
  const TrainingRun run = Published(48, 6144, 64, 1, 1, 4);
  Calibration calibration;
  const double before = MemoryBytes(calibration, run);
  calibration.reserved_bytes += 1e9;
  CHECK(MemoryBytes(calibration, run) == Approx(before + 1e9));
  calibration.state_bytes_per_parameter += 2;
  CHECK(MemoryBytes(calibration, run) == Approx(before + 1e9 + 2 * MemoryOfStage(run, 0).parameters));
}

}  // namespace
}  // namespace medley
