#pragma once
#include <cstdint>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/program/program.h"

// What the ranks of a unit exchange among themselves within a pass: the executor does it, the predictor times
// it.
namespace medley {

enum class ExchangeKind : uint8_t {
  kSum,      // all have the sum of all: an all-reduce
  kScatter,  // each has its rows of the sum: a reduce-scatter
  kGather,   // each has its rows before, and all afterwards: an all-gather
};

// Vectors of one size, each exchanged by itself.
struct GroupExchange {
  ExchangeKind kind = ExchangeKind::kSum;
  int64_t elements = 0;       // of all rows
  Dtype dtype = Dtype::kF32;  // as they are stored, and travel
  int count = 0;
  Bytes bytes() const { return {elements * SizeOf(dtype).value}; }  // of one
  friend bool operator==(const GroupExchange&, const GroupExchange&) = default;
};

// A pass of `blocks` on the ranks of one unit.
struct GroupPass {
  InstructionKind kind = InstructionKind::kForward;  // IsPass, or kJoinGradients
  BlockRange blocks;
  int64_t rows = 0;  // tokens of the micro-batch
  int degree = 1;    // ranks of the unit
  Dtype activations = Dtype::kF32;
  bool sequence_parallel = false;
  Purpose purpose = Purpose::kTrain;
  int64_t sequences = 1;                   // of the micro-batch, which
  int parts = 1;                           // are cut into so many parts (Unit::exchange_parts)
  Recompute recompute = Recompute::kNone;  // what kRecompute makes again of a layer
};

// Each kind and size once, none of a unit of one rank. Forward: the embedding's output and that of each
// branch, [rows, hidden]. The gradient of the input, alone or with that of the weights: the gradient behind
// each branch's norm, and of the head the statistics of its logits, [degree + 1, rows] in f32, and the
// gradient of its normed input. The head has all of its work there; in an evaluation its forward has it,
// which sums the statistics alone. The gradient of the weights alone: nothing. What is made again of a layer:
// the output of each branch but the last.
//
// In sequence parallelism (Korthikanti et al. 2022, section 4.2.2) the sums of [rows, hidden] are scattered,
// and gathered is what linear maps take: the normed input of each branch and of the head, in forward and, not
// having been kept, again for the weights' gradients and in what is made again; the gradient of what a branch
// adds, for either gradient, once where they are one pass; and that of the embedding's output. The gradients
// of each norm's parameters are summed in f32 (kJoinGradients).
//
// Of a micro-batch in parts each sum of the embedding's output or behind a branch is one a part. The head's are one as ever.
std::vector<GroupExchange> GroupExchanges(const ModelConfig& config, const GroupPass& pass);

}  // namespace medley
