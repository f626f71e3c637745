#pragma once
#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/program/program.h"

// What the ranks of a unit sum among themselves within a pass: the executor does it, the predictor times it.
namespace medley {

// Vectors of one size that are summed over the ranks, each by an all-reduce of its own.
struct GroupExchange {
  int64_t elements = 0;
  Dtype dtype = Dtype::kF32;  // as they are stored, and travel
  int count = 0;
  friend bool operator==(const GroupExchange&, const GroupExchange&) = default;
};

// A pass of `blocks` on the ranks of one unit.
struct GroupPass {
  InstructionKind kind = InstructionKind::kForward;  // IsPass
  BlockRange blocks;
  int64_t rows = 0;  // tokens of the micro-batch
  int degree = 1;    // ranks of the unit
  Dtype activations = Dtype::kF32;
  Purpose purpose = Purpose::kTrain;
};

// Each size once, none of a unit of one rank. Forward: the embedding's output and that of each branch, [rows,
// hidden]. The gradient of the input, alone or with that of the weights: the gradient behind each branch's
// norm, and of the head the statistics of its logits, [degree + 1, rows] in f32, and the gradient of its
// normed input. The head has all of its work there; in an evaluation its forward has it, which sums the
// statistics alone. The gradient of the weights alone: nothing. What is made again of a layer: the output of each
// branch but the last.
std::vector<GroupExchange> GroupExchanges(const ModelConfig& config, const GroupPass& pass);

}  // namespace medley
