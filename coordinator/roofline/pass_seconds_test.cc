#include "coordinator/roofline/pass_seconds.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

CalibratedDevice Device() {
  return {{.kind = "k",
           .matmul_flops_per_second = 300e12,
           .memory_bytes_per_second = 2e12,
           .node_link_bytes_per_second = 300e9,
           .memory = GiB(80)},
          {}};
}

TrainingRun Run(int ranks, int micro_batch) {
  TrainingRun run;
  run.shape.model = {
      .layers = 24, .hidden = 8192, .heads = 64, .feed_forward = 32768, .vocabulary = 51200, .context = 2048};
  run.shape.sequence = 2048;
  run.shape.global_batch_sequences = 64;
  run.micro_batch_sequences = micro_batch;
  run.ranks = ranks;
  return run;
}

double Step(const CalibratedDevice& device, const TrainingRun& run) {
  const BlockTimes times = RooflineTimes(device, run);
  return times.embedding.Seconds() + times.layer.Seconds() + times.head.Seconds();
}

TEST_CASE("nothing is faster than the device's peak") {
  const TrainingRun run = Run(1, 4);
  CHECK(Step(Device(), run) > 3 * LayerWork(run).forward.Flops() / 300e12);
}

TEST_CASE("times grow with the micro-batch, and less than in proportion") {
  const int ranks = GENERATE(1, 8);
  for (const int micro_batch : {1, 2, 4}) {
    const double once = Step(Device(), Run(ranks, micro_batch)),
                 twice = Step(Device(), Run(ranks, 2 * micro_batch));
    CHECK(twice > once);
    CHECK(twice < 2 * once);
  }
}

TEST_CASE("more ranks are faster, and less than in proportion") {
  for (const int ranks : {1, 2, 4}) {
    const double fewer = Step(Device(), Run(ranks, 4)), more = Step(Device(), Run(2 * ranks, 4));
    CHECK(more < fewer);
    CHECK(more > fewer / 2);
  }
}

TEST_CASE("a larger figure or share never makes anything slower, a longer overhead never faster") {
  const TrainingRun run = Run(8, 1);
  const double before = Step(Device(), run);
  const auto c = GENERATE(0, 1, 2, 3);
  CalibratedDevice better = Device();
  double* const figures[] = {&better.figures.matmul_flops_per_second, &better.figures.memory_bytes_per_second,
                             &better.figures.node_link_bytes_per_second, &better.calibration.attention_share};
  *figures[c] *= 2;
  CHECK(Step(better, run) < before);
  CalibratedDevice worse = Device();
  double* const overheads[] = {&worse.calibration.operation_seconds, &worse.calibration.exchange_seconds,
                               &worse.calibration.matmul_half_size, &worse.calibration.host_layer_seconds};
  *overheads[c] *= 100;
  CHECK(Step(worse, run) > before);
}

TEST_CASE("what is made again lengthens the backward alone: all of the forward, or attention") {
  TrainingRun run = Run(8, 1);
  const PassTimes none = RooflineTimes(Device(), run).layer;
  run.recompute = Recompute::kAllButAttention;
  const PassTimes attention = RooflineTimes(Device(), run).layer;
  run.recompute = Recompute::kLayers;
  const PassTimes all = RooflineTimes(Device(), run).layer;
  CHECK(none.forward_seconds == attention.forward_seconds);
  CHECK(none.forward_seconds == all.forward_seconds);
  CHECK(none.backward_seconds < attention.backward_seconds);
  CHECK(attention.backward_seconds < all.backward_seconds);
  CHECK(all.backward_seconds == Approx(none.backward_seconds + none.forward_seconds).epsilon(0.01));
}

TEST_CASE("a small layer takes as long as its host needs") {
  TrainingRun run = Run(1, 1);
  run.shape.model.hidden = 128;
  run.shape.model.heads = 2;
  run.shape.model.feed_forward = 512;
  run.shape.sequence = 128;
  CalibratedDevice device = Device();
  device.calibration.host_layer_seconds = 0.01;
  device.calibration.host_backward_ratio = 2;
  const PassTimes layer = RooflineTimes(device, run).layer;
  CHECK(layer.forward_seconds == Approx(0.01));
  CHECK(layer.backward_seconds == Approx(0.02));
}

TEST_CASE("gradients are summed as a ring sends them, over the network where replicas are on several nodes") {
  CalibratedDevice device = Device();
  device.calibration.gradient_share = 1;
  TrainingRun run = Run(8, 1);
  CHECK(GradientSumSeconds(device, run, 1e9) == 0);
  run.replicas = 4;
  run.network_bytes_per_second = 25e9;
  // 2 bytes each, of which a member sends three quarters twice; a rank's group has its node's one adapter.
  CHECK(GradientSumSeconds(device, run, 1e9) == Approx(2 * 2e9 * 0.75 / 25e9));
  run.ranks = 1;
  run.replicas = 8;
  CHECK(GradientSumSeconds(device, run, 1e9) == Approx(2 * 2e9 * 7 / 8 / 300e9));
}

TEST_CASE("sums on a node take what was measured of them, and others do not") {
  const TrainingRun run = Run(8, 1);
  CalibratedDevice measured = Device();
  measured.figures.all_reduce = {{8, {{{0, 1e-3}}}}};
  const RankPass forward = LayerWork(run).forward;
  CHECK(ExchangingSeconds(measured, run, forward) ==
        Approx(forward.exchanges * (1e-3 + Calibration{}.exchange_seconds)));
  TrainingRun replicas = Run(1, 1);
  replicas.replicas = 8;
  CHECK(GradientSumSeconds(measured, replicas, 1e9) == Approx(1e-3));
  CHECK(GradientSumSeconds(measured, run, 1e9) == 0);  // of one replica
  TrainingRun over_nodes = Run(8, 1);
  over_nodes.replicas = 4;
  CHECK(GradientSumSeconds(measured, over_nodes, 1e9) == GradientSumSeconds(Device(), over_nodes, 1e9));
}

TEST_CASE("layers that are gathered take at least as long as that") {
  TrainingRun run = Run(1, 4);
  run.replicas = 64;
  const PassTimes held = RooflineTimes(Device(), run).layer;
  run.parameter_gathers = 2;
  CHECK(GradientSumSeconds(Device(), run, 1e9) == 0);
  CHECK(RooflineTimes(Device(), run).layer.Seconds() == Approx(held.Seconds()).epsilon(0.01));
  run.network_bytes_per_second = 1e9;
  const double gather = 2 * LayerParameters(run) * 63 / 64 / (8e9 * Calibration{}.gradient_share);
  CHECK(RooflineTimes(Device(), run).layer.forward_seconds == Approx(gather).epsilon(0.01));
  // Gathered again, and gradients scattered.
  CHECK(RooflineTimes(Device(), run).layer.backward_seconds == Approx(2 * gather).epsilon(0.01));
}

TEST_CASE("replicas that share the optimizer update a part each") {
  TrainingRun run = Run(8, 1);
  run.replicas = 16;
  const double whole = UpdateSeconds(Device(), run, 1e9);
  run.shards_optimizer = true;
  CHECK(UpdateSeconds(Device(), run, 1e9) == Approx(whole / 16));
}

}  // namespace
}  // namespace medley
