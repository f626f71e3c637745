#include "coordinator/roofline/block_work.h"

namespace medley {
namespace {

// The products of both gradients of rows x columns = input * weight.
void AddGradients(const MatrixProduct& forward, RankPass& backward) {
  backward.products.push_back({forward.rows, forward.depth, forward.columns});
  backward.products.push_back({forward.depth, forward.columns, forward.rows});
}

bool IsGated(const TrainingRun& run) { return run.shape.model.family == ModelFamily::kLlama; }

}  // namespace

double RankPass::Flops() const {
  double sum = attention_flops;
  for (const MatrixProduct& product : products) sum += product.Flops();
  return sum;
}

RankPass AttentionWork(const TrainingRun& run) {
  const ModelConfig& model = run.shape.model;
  const double width = 1.0 * model.attention_width() / run.ranks, sequence = run.shape.sequence;
  RankPass work;
  // A fused kernel skips the half of the scores that a causal mask hides.
  work.attention_flops = 4 * run.Rows() * sequence * width * (run.fused_attention ? 0.5 : 1);
  if (run.fused_attention) {
    work.bytes = 4 * run.Rows() * width * run.element_bytes;
    work.operations = 1;
  } else {
    // Scores are written, scaled and masked, normalised, dropped and read again.
    const double scores = run.micro_batch_sequences * sequence * sequence * model.heads / run.ranks;
    work.bytes = 7 * scores * run.element_bytes;
    work.operations = 4;
  }
  return work;
}

RankWork LayerWork(const TrainingRun& run) {
  const ModelConfig& model = run.shape.model;
  const double rows = run.Rows(), hidden = model.hidden, ranks = run.ranks;
  const double feed_forward = model.feed_forward / ranks;
  RankWork work;
  RankPass& forward = work.forward;
  forward = AttentionWork(run);
  forward.products = {{rows, model.joined_width() / ranks, hidden},
                      {rows, hidden, model.attention_width() / ranks},
                      {rows, feed_forward * (IsGated(run) ? 2 : 1), hidden},
                      {rows, hidden, feed_forward}};
  // Two norms, two additions with their dropout: ten passes over the residual stream; the activation: two or three
  // over the feed-forward's.
  const double stream = rows * hidden / (run.sequence_parallel ? ranks : 1);
  forward.bytes += run.element_bytes * (10 * stream + rows * feed_forward * (IsGated(run) ? 3 : 2));
  forward.operations += 6;
  if (run.ranks > 1) {
    forward.exchanges = 2;
    forward.exchanged_bytes = run.element_bytes * rows * hidden;
  }
  RankPass& backward = work.backward;
  for (const MatrixProduct& product : forward.products) AddGradients(product, backward);
  backward.attention_flops = (run.fused_attention ? 2.5 : 2) * forward.attention_flops;
  backward.bytes = 1.8 * forward.bytes;
  backward.operations = 2 * forward.operations;
  backward.exchanges = forward.exchanges;
  backward.exchanged_bytes = forward.exchanged_bytes;
  return work;
}

RankWork EmbeddingWork(const TrainingRun& run) {
  RankWork work;
  const double stream = run.element_bytes * run.Rows() * run.shape.model.hidden;
  work.forward.bytes = 4 * stream;
  work.forward.operations = 3;
  work.backward.bytes = 4 * stream;
  work.backward.operations = 3;
  if (run.ranks > 1) {
    work.forward.exchanges = 1;
    work.forward.exchanged_bytes = stream;
  }
  return work;
}

RankWork HeadWork(const TrainingRun& run) {
  const double vocabulary = 1.0 * run.shape.model.vocabulary / run.ranks, hidden = run.shape.model.hidden;
  const double logits = run.Rows() * vocabulary;
  RankWork work;
  work.forward.products = {{run.Rows(), vocabulary, hidden}};
  // Written in 16 bits, made 32 bits wide, its greatest and its sum of powers found.
  work.forward.bytes = 14 * logits;
  work.forward.operations = 6;
  AddGradients(work.forward.products[0], work.backward);
  work.backward.bytes = 8 * logits;
  work.backward.operations = 4;
  if (run.ranks > 1) {
    work.backward.exchanges = 1;
    work.backward.exchanged_bytes = run.element_bytes * run.Rows() * hidden;
  }
  return work;
}

double LayerParameters(const TrainingRun& run) {
  const ModelConfig& model = run.shape.model;
  const double matrices = 1.0 * model.hidden * (model.joined_width() + model.attention_width()) +
                          1.0 * model.hidden * model.feed_forward * (IsGated(run) ? 3 : 2);
  const double vectors = IsGated(run) ? 2.0 * model.hidden : 13.0 * model.hidden;
  return (matrices + vectors) / run.ranks;
}

double EmbeddingParameters(const TrainingRun& run) {
  return 1.0 * run.shape.model.vocabulary * run.shape.model.hidden / run.ranks;
}

double StageParameters(const TrainingRun& run, int stage) {
  double parameters = 0;
  for (int c = 0; c < run.chunks_per_stage; ++c) {
    parameters += run.LayersOfChunk(c * run.stages + stage) * LayerParameters(run);
  }
  const bool first = stage == 0, last = stage == run.stages - 1;
  if (first || last) parameters += EmbeddingParameters(run);
  if (first && last && !run.shape.model.tied_head) parameters += EmbeddingParameters(run);
  return parameters;
}

}  // namespace medley
