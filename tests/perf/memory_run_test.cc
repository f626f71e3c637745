#include "tests/perf/memory_run.h"

#include <catch2/catch.hpp>

#include "agent/profile/block_timer.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_variant.h"
#include "kernels/reference/reference_backend.h"
#include "tests/skipped.h"

namespace medley {
namespace {

// Two stages, the first stored as bf16, which the reference computes in f32.
MemoryCase Pipeline() {
  MemoryCase of{.name = "two stages"};
  of.spec.shape = {
      .model = {.layers = 2, .hidden = 16, .heads = 2, .feed_forward = 32, .vocabulary = 31, .context = 8},
      .sequence = 8,
      .global_batch_sequences = 4};
  of.spec.steps = 2;
  of.plan.units = {{.devices = {"a/0"}, .chunks = {{0, 2}}, .activations = Dtype::kBf16},
                   {.devices = {"b/0"}, .chunks = {{2, 4}}}};
  of.plan.routes = {{.units = {0, 1}, .micro_batches = 2, .micro_batch_sequences = 2}};
  of.open = [](Rank, Bytes limit) {
    return ReferenceBackend().open(
        {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = limit});
  };
  return of;
}

TEST_CASE("a plan takes what was predicted: it runs with that much memory, and with a byte less runs out") {
  const MemoryCase of = Pipeline();
  const std::vector<RankPredicted> predicted = PredictForMemory(of, std::vector<DeviceRoom>(2));
  REQUIRE(predicted.size() == 2);
  CHECK(predicted[0].model.conversions > Bytes{0});
  CHECK(predicted[0].model.logits == Bytes{0});
  CHECK(predicted[1].model.logits > Bytes{0});
  std::vector<Bytes> limits = {predicted[0].total(), predicted[1].total()};
  const absl::StatusOr<std::vector<RankTaken>> taken = RunForMemory(of, limits);
  REQUIRE(taken.status().ToString() == "OK");
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    CHECK((*taken)[rank].set_up == predicted[rank].model.total());
    CHECK((*taken)[rank].peak == predicted[rank].total());
  }
  const int short_of_memory = GENERATE(0, 1);
  limits[short_of_memory] -= Bytes{1};
  const absl::Status out = RunForMemory(of, limits).status();
  CHECK(absl::IsResourceExhausted(out));
  CHECK_THAT(std::string(out.message()), Catch::StartsWith("rank " + std::to_string(short_of_memory) + ": "));
}

TEST_CASE("activations that live on the host take of both what was predicted, to the byte") {
  MemoryCase of = Pipeline();
  of.plan.schedule = Schedule::kGPipe;
  of.plan.routes[0] = {.units = {0, 1}, .micro_batches = 4, .micro_batch_sequences = 1};
  const RankMemory on_device = PredictForMemory(of, std::vector<DeviceRoom>(2))[0].model;
  of.plan.units[0].activations_home = ActivationsHome::kHost;
  of.plan.units[1].window_layers = 1;
  const std::vector<RankPredicted> predicted = PredictForMemory(of, std::vector<DeviceRoom>(2));
  CHECK(predicted[0].total() < on_device.total());
  const absl::StatusOr<std::vector<RankTaken>> taken =
      RunForMemory(of, {predicted[0].total(), predicted[1].total()});
  REQUIRE(taken.status().ToString() == "OK");
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    CHECK((*taken)[rank].peak == predicted[rank].total());
    CHECK((*taken)[rank].host == predicted[rank].model.host);
    CHECK((*taken)[rank].host > Bytes{0});
  }
}

TEST_CASE("activations of a unit's first layer that live on the host take of both what was predicted") {
  MemoryCase of = Pipeline();
  of.spec.shape.model.layers = 3;
  of.plan.schedule = Schedule::kGPipe;
  of.plan.routes[0] = {.units = {0, 1}, .micro_batches = 4, .micro_batch_sequences = 1};
  of.plan.units[0].chunks = {{0, 3}};
  of.plan.units[1].chunks = {{3, 5}};
  of.plan.units[0].activations_home = ActivationsHome::kHost;
  const RankMemory of_all = PredictForMemory(of, std::vector<DeviceRoom>(2))[0].model;
  of.plan.units[0].homed_layers = 1;
  const std::vector<RankPredicted> predicted = PredictForMemory(of, std::vector<DeviceRoom>(2));
  CHECK(predicted[0].model.host < of_all.host);
  CHECK(predicted[0].total() > of_all.total());
  const absl::StatusOr<std::vector<RankTaken>> taken =
      RunForMemory(of, {predicted[0].total(), predicted[1].total()});
  REQUIRE(taken.status().ToString() == "OK");
  CHECK((*taken)[0].peak == predicted[0].total());
  CHECK((*taken)[0].host == predicted[0].model.host);
  CHECK((*taken)[0].host > Bytes{0});
}

TEST_CASE("what the ops take beside the model is as the device's room says") {
  MemoryCase of = Pipeline();
  of.plan.units[1].activations = Dtype::kBf16;
  const DeviceRoom room{.memory = GiB(1), .workspace = {100}, .copy_bytes_per_parameter = 2};
  const std::vector<RankPredicted> predicted = PredictForMemory(of, {room, room});
  for (const RankPredicted& rank : predicted) {
    CHECK(rank.workspace == Bytes{100});
    CHECK(rank.copies == Bytes{2 * rank.model.multiplied});
  }
  // One layer each; the head's weight beside the second.
  CHECK(predicted[1].model.multiplied - predicted[0].model.multiplied == 31 * 16);
  // Where activations are f32, both operands of a gradient of weights may be rounded, 16 rows as wide as `in`.
  of.plan.units[1].activations = Dtype::kF32;
  const RankMemory f32 = PredictForMemory(of, {room, room})[1].model;
  CHECK(f32.multiplied - predicted[1].model.multiplied == 2 * 16 * 48);
}

// As its profile says: of each two bytes, and no logits.
TEST_CASE("a processor that multiplies bf16 keeps copies of the parameters that products multiply by") {
  const std::string variant = DefaultCpuVariant();
  if (variant.empty() || !MultipliesBf16(*ParseCpuVariant(variant))) {
    PartlySkipped("copies of parameters", "this processor does not multiply bf16");
    return;
  }
  MemoryCase of = Pipeline();
  of.spec.precision = Precision::kBf16;
  of.plan.units[1].activations = GENERATE(Dtype::kF32, Dtype::kBf16);
  of.open = [&](Rank, Bytes limit) {
    return CpuBackend().open(
        {.name = "cpu", .backend = "cpu", .variant = variant, .cores = {0}, .memory_limit = limit});
  };
  absl::StatusOr<Device> device = of.open(0, GiB(1));
  REQUIRE(device.status().ToString() == "OK");
  const absl::StatusOr<DeviceTimes> times =
      TimeBlocks(*device, of.spec.shape, of.spec.precision, {2, 8}, {.fewest_rounds = 1, .most_rounds = 1});
  REQUIRE(times.status().ToString() == "OK");
  CHECK(times->copy_bytes_per_parameter == 2);
  CHECK(device->ops->held().copies == Bytes{0});  // they went with the shards
  const Bytes of_two = times->by_micro_batch[0].workspace;
  CHECK(of_two <= times->workspace);
  const DeviceRoom room{.memory = GiB(1),
                        .workspace = times->workspace,
                        .workspace_by_size = {{2, of_two}},
                        .copy_bytes_per_parameter = times->copy_bytes_per_parameter};
  const std::vector<RankPredicted> predicted = PredictForMemory(of, {room, room});
  CHECK(predicted[0].workspace == of_two);
  const absl::StatusOr<std::vector<RankTaken>> taken = RunForMemory(of, {GiB(1), GiB(1)});
  REQUIRE(taken.status().ToString() == "OK");
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    CHECK((*taken)[rank].peak == predicted[rank].total());
  }
}

}  // namespace
}  // namespace medley
