#include "coordinator/roofline/block_work.h"

#include <catch2/catch.hpp>

#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

TrainingRun Gpt(int ranks) {
  TrainingRun run;
  run.shape.model = {
      .layers = 12, .hidden = 1024, .heads = 16, .feed_forward = 4096, .vocabulary = 50304, .context = 2048};
  run.shape.sequence = 2048;
  run.shape.global_batch_sequences = 8;
  run.micro_batch_sequences = 2;
  run.ranks = ranks;
  return run;
}

TEST_CASE(
    "a layer's forward is two operations a weight and token, and attention's four of sequence and width") {
  const TrainingRun run = Gpt(1);
  const double tokens = 2 * 2048, hidden = 1024;
  const RankWork work = LayerWork(run);
  CHECK(work.forward.Flops() == Approx(2 * 12 * hidden * hidden * tokens + 4 * tokens * 2048 * hidden));
  CHECK(work.backward.Flops() == Approx(2 * work.forward.Flops()));
}

TEST_CASE("a step's products are six operations a parameter and token beside attention") {
  const TrainingRun run = Gpt(1);
  const ModelConfig& model = run.shape.model;
  const double tokens = run.Rows();
  const auto products = [](const RankWork& work) {
    return work.forward.Flops() + work.backward.Flops() - work.forward.attention_flops -
           work.backward.attention_flops;
  };
  const double flops = model.layers * products(LayerWork(run)) + products(HeadWork(run));
  const double matrices = static_cast<double>(ModelElements(model)) - 1.0 * model.context * model.hidden;
  // Biases and norms are parameters, too, but in no product: less than a part in a thousand.
  CHECK(flops == Approx(6 * matrices * tokens).epsilon(1e-3));
}

TEST_CASE("parameters are those of the model") {
  const bool llama = GENERATE(false, true);
  TrainingRun run = Gpt(1);
  if (llama) {
    run.shape.model.family = ModelFamily::kLlama;
    run.shape.model.feed_forward = 2816;
    run.shape.model.key_value_heads = 4;
  }
  CHECK(LayerParameters(run) == SegmentElements(run.shape.model, SegmentOfBlock(1)));
}

TEST_CASE("ranks share products, attention and parameters evenly and exchange two sums each way") {
  const int ranks = GENERATE(2, 4, 8);
  const RankWork whole = LayerWork(Gpt(1)), part = LayerWork(Gpt(ranks));
  CHECK(part.forward.Flops() == Approx(whole.forward.Flops() / ranks));
  CHECK(part.backward.Flops() == Approx(whole.backward.Flops() / ranks));
  CHECK(LayerParameters(Gpt(ranks)) == Approx(LayerParameters(Gpt(1)) / ranks));
  CHECK(whole.forward.exchanges == 0);
  CHECK(part.forward.exchanges == 2);
  CHECK(part.backward.exchanges == 2);
  CHECK(part.forward.exchanged_bytes == 2.0 * 2 * 2048 * 1024);
  // Norms are not shared, unless rows are.
  CHECK(part.forward.bytes > whole.forward.bytes / ranks);
  TrainingRun by_rows = Gpt(ranks);
  by_rows.sequence_parallel = true;
  CHECK(LayerWork(by_rows).forward.bytes == Approx(whole.forward.bytes / ranks));
}

TEST_CASE("fused attention computes half of the scores and moves none of them") {
  TrainingRun run = Gpt(1);
  const RankPass plain = AttentionWork(run);
  run.fused_attention = true;
  const RankPass fused = AttentionWork(run);
  CHECK(fused.attention_flops == plain.attention_flops / 2);
  CHECK(fused.bytes < plain.bytes / 10);
}

}  // namespace
}  // namespace medley
