#pragma once
#include <vector>

#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/recompute.h"
#include "runtime/ir/plan/plan.h"

// One training job as publications describe it: equal replicas of one pipeline whose stages each have equally many
// ranks. Software as they name it: Megatron-LM unless a field says otherwise.
namespace medley {

struct TrainingRun {
  TrainingShape shape;
  int micro_batch_sequences = 1;
  int ranks = 1;  // of a stage: tensor parallelism
  int stages = 1;
  int chunks_per_stage = 1;  // more than one: interleaved 1F1B
  int replicas = 1;
  // Layers of each chunk in the order in which micro-batches pass them; empty: as even as they go.
  std::vector<int> chunk_layers;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  // Whether attention is one operation that leaves no scores in memory (FlashAttention), and skips what a causal mask
  // hides.
  bool fused_attention = false;
  bool shards_optimizer = false;  // ZeRO-1
  // How often a micro-batch gathers each layer's parameters, which replicas share (fully sharded: 2, before forward and
  // backward; 1: kept for the backward). Their gradients are scattered after it. Beside what computes. With one stage.
  int parameter_gathers = 0;
  // Whether ranks sum parts of what they exchange beside the products that make and use it.
  bool overlaps_exchanges = false;
  double element_bytes = 2;                 // of activations, and of operands of products
  double gradient_bytes_per_parameter = 2;  // as they are summed between replicas
  int devices_per_node = 8;
  // Of a device, one way, to other nodes.
  double network_bytes_per_second = 25e9;

  int MicroBatches() const { return shape.global_batch_sequences / (micro_batch_sequences * replicas); }
  int Chunks() const { return stages * chunks_per_stage; }
  double Rows() const { return 1.0 * micro_batch_sequences * shape.sequence; }
  // Where not given, the first chunks have the more layers.
  int LayersOfChunk(int chunk) const;
};

}  // namespace medley
