#pragma once
#include <vector>

#include "coordinator/roofline/training_run.h"

// What the passes of a block compute, move and exchange on one rank, op by op: counts, whatever the device.
namespace medley {

// rows x columns, each a sum of `depth` products.
struct MatrixProduct {
  double rows = 0, columns = 0, depth = 0;
  double Flops() const { return 2 * rows * columns * depth; }
};

// A pass of one block over one micro-batch.
struct RankPass {
  std::vector<MatrixProduct> products;
  double attention_flops = 0;  // of scores and of what they weigh
  double bytes = 0;            // read and written by norms, additions, activations and, unless fused, scores
  int operations = 0;          // other than products
  int exchanges = 0;           // sums over all ranks of the stage, of `exchanged_bytes` each
  double exchanged_bytes = 0;

  double Flops() const;
};

// Of the two gradients; what is made again before them is not in it.
struct RankWork {
  RankPass forward, backward;
};

// `run` must have positive sizes and heads, feed-forward and vocabulary that its ranks can share. Logits are counted as of 16 bits
// that are made 32 wide, whatever elements are.
RankWork LayerWork(const TrainingRun& run);
RankWork EmbeddingWork(const TrainingRun& run);
// Final norm, head and loss.
RankWork HeadWork(const TrainingRun& run);
// What attention alone repeats before a backward that makes all but its output again.
RankPass AttentionWork(const TrainingRun& run);

// On one rank.
double LayerParameters(const TrainingRun& run);
double EmbeddingParameters(const TrainingRun& run);  // of the token embedding, and as many of an untied head
double StageParameters(const TrainingRun& run, int stage);  // of all its chunks

}  // namespace medley
