#include <catch2/catch.hpp>
#include <limits>
#include <memory>

#include "kernels/emulated/emulated_ops.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/model/block_sizes.h"

// The work that a block's kind says it has is that of the ops that its passes submit.
namespace medley {
namespace {

PassWork Sum(const std::vector<OpCost>& ops) {
  PassWork sum;
  for (const OpCost& op : ops) {
    sum.flops += op.flops;
    sum.bytes += op.bytes;
  }
  return sum;
}

void CheckWork(const PassWork& submitted, const PassWork& said) {
  // A causal mask leaves (sequence + 1) / 2 of the scores of a row.
  CHECK(submitted.flops == Approx(said.flops).epsilon(0.01));
  // An op that updates in place counts twice there; statistics of norms and biases are not counted here.
  CHECK(submitted.bytes >= 0.95 * said.bytes);
  CHECK(submitted.bytes <= 1.3 * said.bytes);
}

TEST_CASE("a layer's work is that of the ops of its passes, forward and backward") {
  TrainingShape shape{
      .model =
          {.layers = 3, .hidden = 512, .heads = 8, .feed_forward = 2048, .vocabulary = 100, .context = 256},
      .sequence = 256,
      .global_batch_sequences = 2};
  if (GENERATE(false, true)) {
    shape.model.family = ModelFamily::kLlama;
    shape.model.key_value_heads = 2;
  }
  CAPTURE(static_cast<int>(shape.model.family));
  auto owned = std::make_unique<CostRecorder>();
  CostRecorder& recorder = *owned;
  Device device;
  device.queue = std::make_unique<EmulatedQueue>(
      EmulatedQueue::Options{.name = "recorder", .limit = {std::numeric_limits<int64_t>::max()}});
  device.ops = std::move(owned);
  const auto shard = ModelShard::Create(device, {.shape = shape,
                                                 .chunks = {{2, 3}},
                                                 .micro_batch_sequences = 2,
                                                 .buffers = BuffersOfOne(shape.model, {2, 3}, Dtype::kF32)});
  REQUIRE(shard.status().ToString() == "OK");
  recorder.Take();
  const BlockWork work = WorkOf(shape.model, 2, 2, shape.sequence);
  REQUIRE((*shard)->Forward({.stash = 0, .input = 0, .output = 0}, Purpose::kTrain).ok());
  CheckWork(Sum(recorder.Take()), work.forward);
  REQUIRE((*shard)->Backward({.stash = 0, .input = 0, .input_gradient = 0, .output_gradient = 0}).ok());
  CheckWork(Sum(recorder.Take()), work.backward());
}

}  // namespace
}  // namespace medley
