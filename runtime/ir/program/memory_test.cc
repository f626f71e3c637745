#include "runtime/ir/program/memory.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/base/op_scratch.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

const TrainingShape kShape = {
    .model = {.layers = 3, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8},
    .sequence = 4,
    .global_batch_sequences = 8};

TEST_CASE("a whole model holds sixteen bytes of state for each parameter") {
  const RankMemory memory = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, {.stash = {1}});
  const int64_t parameters = ModelElements(kShape.model);
  CHECK(memory.parameters == Bytes{4 * parameters});
  CHECK(memory.gradients == Bytes{4 * parameters});
  CHECK(memory.optimizer == Bytes{8 * parameters});
  CHECK(memory.boundaries == Bytes{0});
  CHECK(memory.total() > Bytes{16 * parameters});
}

TEST_CASE("activations grow with the micro-batches in flight, boundaries with their buffers") {
  const RankMemory one =
      MemoryOf(kShape.model, kShape.sequence, {{1, 3}}, 2, {.stash = {1}, .input = 2, .output = 2});
  const RankMemory three =
      MemoryOf(kShape.model, kShape.sequence, {{1, 3}}, 2, {.stash = {3}, .input = 4, .output = 2});
  CHECK(three.activations == 3 * one.activations);
  CHECK(three.boundaries.value * 4 == one.boundaries.value * 6);
  // Four buffers of 2 windows of 4 tokens of 8 floats.
  CHECK(one.boundaries == Bytes{4 * int64_t{4} * 2 * 4 * 8});
  CHECK(three.parameters == one.parameters);
}

TEST_CASE("of layers that live on the host the device has windows, and the host all") {
  const RankMemory device = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, {.stash = {1}}),
                   host = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, {.stash = {1}, .windows = 2});
  const Bytes layer{4 * SegmentElements(kShape.model, SegmentOfBlock(1))};
  CHECK(device.parameters - host.parameters == layer);
  CHECK(device.gradients - host.gradients == layer);
  CHECK(device.optimizer - host.optimizer == 2 * layer);
  CHECK(host.host == 3 * 4 * layer);
  CHECK(device.total() - host.total() == 4 * layer);
  CHECK(device.host == Bytes{0});
  CHECK(host.windows.parameters == 2 * layer);
  CHECK(host.windows.gradients == 2 * layer);
  CHECK(host.windows.optimizer == 4 * layer);
  CHECK(device.windows.total() == Bytes{0});
}

TEST_CASE("layers that live with all of their holders take windows beside what a rank keeps of them") {
  const auto memory_of = [](int windows, LayersHome home) {
    return MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2,
                    {.stash = {1}, .windows = windows, .home = home});
  };
  const RankMemory device =
      memory_of(0, LayersHome::kHost);  // which keeps all of them, as the only holder does
  const Bytes layer{4 * SegmentElements(kShape.model, SegmentOfBlock(1))};
  const LayersHome home = GENERATE(LayersHome::kGradientsOnPeers, LayersHome::kPeers);
  const RankMemory peers = memory_of(2, home);
  CHECK(peers.windows.gradients == 2 * layer);
  CHECK(peers.windows.parameters == (home == LayersHome::kPeers ? 2 * layer : Bytes{0}));
  CHECK(peers.windows.optimizer == Bytes{0});
  CHECK(peers.total() == device.total() + peers.windows.total());
}

TEST_CASE("activations that live on the host take as much of it as they would of the device") {
  const RankMemory device = MemoryOf(
                       kShape.model, kShape.sequence, {{0, 2}, {3, 5}}, 2,
                       {.stash = {5, 4}, .leaving_stash = {0, 0}, .deferred = {0, 0}, .stash_home = {0, 0}}),
                   host = MemoryOf(kShape.model, kShape.sequence, {{0, 2}, {3, 5}}, 2,
                                   {.stash = {0, 0},
                                    .leaving_stash = {3, 2},
                                    .deferred = {0, 0},
                                    .stash_home = {2, 2},
                                    .activations_home = ActivationsHome::kHost});
  CHECK(device.host == Bytes{0});
  CHECK(host.host > Bytes{0});
  CHECK(host.host == device.activations - host.activations);
  CHECK(host.total() + host.host == device.total());
}

TEST_CASE("of activations that live on the host by layer, the first layers' and what is before them do") {
  const auto memory_of = [](int layers) {
    return MemoryOf(kShape.model, kShape.sequence, {{0, 2}, {3, 5}}, 2,
                    {.stash = {5, 4},
                     .leaving_stash = {3, 2},
                     .deferred = {0, 0},
                     .stash_home = {2, 2},
                     .activations_home = ActivationsHome::kHost,
                     .homed_layers = layers});
  };
  const auto kept = [](BlockId block) {
    return StashBytes(kShape.model, block, int64_t{2} * kShape.sequence, Dtype::kF32);
  };
  // Embedding and a layer; a layer and the head.
  const RankMemory one = memory_of(1);
  CHECK(one.activations == 3 * (kept(0) + kept(1)) + 4 * (kept(3) + kept(4)));
  CHECK(one.host == 2 * (kept(0) + kept(1)));
  // As many as there are: all, the head too.
  for (const int layers : {0, 2}) {
    const RankMemory all = memory_of(layers);
    CHECK(all.activations == 3 * (kept(0) + kept(1)) + 2 * (kept(3) + kept(4)));
    CHECK(all.host == 2 * (kept(0) + kept(1) + kept(3) + kept(4)));
  }
}

TEST_CASE("memory of which a part is more than one buffer may take does not fit, although its total does") {
  const RankMemory memory = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, {.stash = {1}});
  const Bytes largest = LargestBufferOf(memory).bytes;
  DeviceRoom room{.memory = memory.total() + Bytes{memory.multiplied}, .copy_bytes_per_parameter = 1};
  const Bytes left = room.LeftFor(memory.multiplied, memory.micro_batch_sequences);
  CHECK(left == memory.total());
  CHECK(LeftFor(memory, room) == left);
  room.largest_buffer = largest;
  CHECK(Fits(memory, room));
  CHECK(LeftFor(memory, room) == left);
  room.largest_buffer = largest - Bytes{3};
  CHECK_FALSE(Fits(memory, room));
  CHECK(BufferExcess(memory, room) == Bytes{3});
  CHECK(LeftFor(memory, room) == memory.total() - Bytes{3});
  room.memory = 10 * room.memory;
  CHECK(LeftFor(memory, room) == memory.total() - Bytes{3});
  room.memory = memory.total() - Bytes{5};  // and copies
  CHECK(LeftFor(memory, room) == memory.total() - Bytes{5 + memory.multiplied});
  room.largest_buffer = {};
  CHECK(BufferExcess(memory, room) == Bytes{0});
}

TEST_CASE(
    "the largest buffer is a part, one of two moments, what going ahead keeps, or scratch of two kinds") {
  RankMemory memory{.parameters = {40},
                    .gradients = {40},
                    .optimizer = {80 + 60},
                    .activations = {30},
                    .boundaries = {5},
                    .workspace = {20},
                    .logits = {10},
                    .conversions = {12},
                    .ahead = {60}};
  const auto check = [&](const std::string& part, int64_t bytes) {
    CHECK(LargestBufferOf(memory).part == part);
    CHECK(LargestBufferOf(memory).bytes == Bytes{bytes});
  };
  check("parameters as they were before the update", 60);
  memory.optimizer -= memory.ahead;
  memory.ahead = {};
  check("parameters", 40);
  memory.parameters = {30};
  check("gradients", 40);
  memory.gradients = {30};
  check("one of the optimizer's moments", 40);
  memory.logits = {30};
  check("conversions and logits", 42);
  memory.activations = {50};
  check("activations", 50);
  BufferCounts buffers{.stash = {1}};
  const RankMemory stays = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, buffers);
  CHECK(stays.ahead == Bytes{0});
  buffers.goes_ahead = true;
  const RankMemory goes = MemoryOf(kShape.model, kShape.sequence, {{0, 5}}, 2, buffers);
  CHECK(goes.ahead > goes.parameters);
  CHECK(goes.ahead == goes.optimizer - stays.optimizer);
}

// All layers of a GPT-2 with wide rows, on a unit of `degree` devices.
PlannedShape Layers(int degree, Recompute recompute) {
  PlannedShape planned{
      .shape = {.model = {.layers = 4, .hidden = 256, .heads = 4, .feed_forward = 1024, .vocabulary = 64},
                .sequence = 64,
                .global_batch_sequences = 8}};
  Unit unit{.chunks = {{1, 5}}, .recompute = recompute};
  for (int d = 0; d < degree; ++d) unit.devices.push_back("a/" + std::to_string(d));
  planned.plan.units = {{.devices = {"b/0"}, .chunks = {{0, 1}, {5, 6}}}, unit};
  planned.plan.routes = {{.units = {0, 1, 0}, .micro_batches = 8, .micro_batch_sequences = 1}};
  return planned;
}

TEST_CASE(
    "in sequence parallelism the residual stream, the norms' statistics and boundaries are kept once a "
    "unit") {
  struct Case {
    int degree;
    Recompute recompute;
    double kept;  // of what is kept otherwise
  };
  // Of a row, in C: 2 streams, and 8 of queries, keys, values, attention's output and the wide activation.
  const auto c = GENERATE(values<Case>({{2, Recompute::kNone, (1 + 4) / 6.0},
                                        {4, Recompute::kNone, (0.5 + 2) / 4.0},
                                        {2, Recompute::kLayers, 0.5},
                                        {4, Recompute::kLayers, 0.25},
                                        {2, Recompute::kAllButAttention, (0.5 + 0.5) / 1.5}}));
  CAPTURE(c.degree, static_cast<int>(c.recompute));
  PlannedShape planned = Layers(c.degree, c.recompute);
  const RankMemory all_rows = MemoryOfRank(planned.plan, 1, planned.shape);
  planned.plan.units[1].sequence_parallel = true;
  const RankMemory own_rows = MemoryOfRank(planned.plan, 1, planned.shape);
  // What one layer needs while it is made again is no part of the share.
  const auto scratch = [&](int64_t own) {
    return RecomputedBytes(LocalModel(planned.shape.model, ShareOf(planned.plan, 1, planned.shape.model)),
                           {64, own}, Dtype::kF32, c.recompute)
        .value;
  };
  const double ratio = static_cast<double>(own_rows.activations.value - scratch(64 / c.degree)) /
                       static_cast<double>(all_rows.activations.value - scratch(64));
  CHECK(ratio == Approx(c.kept).epsilon(0.01));
  CHECK(own_rows.boundaries.value * c.degree == all_rows.boundaries.value);
  CHECK(own_rows.workspace < all_rows.workspace);
  CHECK(own_rows.parameters == all_rows.parameters);
  CHECK(own_rows.optimizer == all_rows.optimizer);
}

TEST_CASE("ranks that cut rows unevenly together keep the stream once") {
  PlannedShape planned = Layers(3, Recompute::kLayers);
  planned.shape.model.heads = 8;
  planned.shape.sequence = 65;
  const auto boundaries = [&](Rank rank) {
    return MemoryOfRank(planned.plan, rank, planned.shape).boundaries.value;
  };
  const int64_t whole = boundaries(1);
  planned.plan.units[1].sequence_parallel = true;
  CHECK(boundaries(1) + boundaries(2) + boundaries(3) == whole);
  CHECK(boundaries(1) > boundaries(3));
}

TEST_CASE("logits and conversions are bounded, whatever the micro-batch") {
  const Dtype activations = GENERATE(Dtype::kF32, Dtype::kBf16);
  for (const int vocabulary : {20, 50257, 400'000}) {
    for (const int64_t rows : {1, 63, 64, 333, 1024, 100'000}) {
      CAPTURE(vocabulary, rows);
      const int64_t at_a_time = LogitsRows(rows, vocabulary, activations);
      CHECK(at_a_time >= 1);
      CHECK(at_a_time <= rows);
      // All of them, or whole tiles.
      CHECK((at_a_time == rows || at_a_time % kLogitsTile == 0));
      CHECK((4 * at_a_time * vocabulary <= kLogitsPart.value ||
             at_a_time <= (activations == Dtype::kF32 ? kLogitsTile : kLogitsRowsOf16Bits)));
    }
  }
  const auto conversions = [](int micro_batch_sequences, Dtype activations, Dtype narrowest) {
    TrainingShape shape = kShape;
    shape.model.hidden = 512;
    shape.sequence = shape.model.context = 512;
    return MemoryOf(shape.model, shape.sequence, {{0, 5}}, micro_batch_sequences,
                    {.stash = {1}, .activations = activations, .narrowest = narrowest})
        .conversions;
  };
  CHECK(conversions(1, Dtype::kF32, Dtype::kF32) == Bytes{0});
  // A sum of three tensors at most; the whole of it, then piece by piece.
  CHECK(conversions(1, Dtype::kF32, Dtype::kBf16) == Bytes{3 * 4 * int64_t{512} * 512});
  CHECK(conversions(9, Dtype::kF32, Dtype::kBf16) == kConversionPart);
  // One window's attention, with gradients: queries, keys and values twice, what comes out twice.
  CHECK(conversions(1, Dtype::kBf16, Dtype::kBf16) == Bytes{2 * 4 * 4 * int64_t{512} * 512});
  CHECK(conversions(9, Dtype::kBf16, Dtype::kBf16) == kConversionPart);
}

TEST_CASE("the stages of a route hold the model once, but for the tied embedding", "[property]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const PlannedShape planned = RandomPlan(seed);
    const ModelConfig& model = planned.shape.model;
    for (const Route& route : planned.plan.routes) {
      Bytes parameters, activations;
      for (const int u : route.units) {
        const RankMemory memory =
            MemoryOf(model, planned.shape.sequence, planned.plan.units[u].chunks, 1, {.stash = {1}});
        parameters += memory.parameters;
        activations += memory.activations;
      }
      const int64_t copies = route.units.size() > 1 ? 1 : 0;
      CHECK(parameters == Bytes{4 * (ModelElements(model) + copies * SegmentElements(model, kTiedSegment))});
      CHECK(activations ==
            MemoryOf(model, planned.shape.sequence, {{0, model.blocks()}}, 1, {.stash = {1}}).activations);
    }
  }
}

}  // namespace
}  // namespace medley
