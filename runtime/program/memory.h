#pragma once
#include "runtime/base/bytes.h"
#include "runtime/model/model_config.h"
#include "runtime/program/program.h"

// How much device memory a unit needs: the one model that the planner predicts with and the worker allocates by.
namespace medley {

struct UnitMemory {
  Bytes parameters;   // f32
  Bytes gradients;    // f32
  Bytes optimizer;    // AdamW's m and v, f32
  Bytes activations;  // kept from forward to backward, all micro-batches in flight
  Bytes boundaries;   // inputs, outputs and their gradients on their way
  Bytes workspace;    // scratch of one block's pass, and kScalarBytes

  Bytes total() const { return parameters + gradients + optimizer + activations + boundaries + workspace; }
};

// `micro_batch_sequences` windows in a micro-batch; `buffers` as the unit's step program says.
UnitMemory MemoryOf(const TrainingShape& shape, BlockRange blocks, int micro_batch_sequences, const BufferCounts& buffers);

// What `unit` of a valid plan needs to train; compiles its program.
UnitMemory MemoryOfUnit(const Plan& plan, int unit, const TrainingShape& shape);

// Elements (4 bytes each) that `block` keeps from forward to backward of one micro-batch of `rows` = windows * sequence
// tokens, the block's output included.
int64_t StashElements(const ModelConfig& config, int block, int64_t rows);

// Sums that leave the device: the loss and a squared norm, f64.
constexpr Bytes kScalarBytes = {16};

// Elements of scratch that the passes of `blocks` share, the rotary embedding's angles of `sequence` positions included.
int64_t WorkspaceElements(const ModelConfig& config, BlockRange blocks, int sequence, int64_t rows);

}  // namespace medley
