#pragma once
#include <vector>

#include "runtime/ir/program/step_writer.h"

namespace medley {

// What follows the passes of a step: sums of gradients, their norm, scalars and updates; and, while the passes are written,
// what becomes of gradients that are complete.
class StepEnd {
 public:
  // Outlives it.
  explicit StepEnd(StepWriter& writer) : writer_(writer) {}

  // Nothing more is added to the gradients of `blocks`, which are complete behind instruction `added`. Those of a layer
  // that lives elsewhere go home: to be summed with other holders', on the way there if these are their home, or with
  // their norm for the update to come.
  void Complete(BlockRange blocks, int added);
  // The last forward of the step so far.
  void Forwarded(int instruction) { last_forward_ = instruction; }

  // Writes the sums of gradients, in the order of the program's slices, and their norm.
  void AddReductions();
  // Writes the sum of scalars and, where the step trains, the updates.
  void AddEnd();

 private:
  bool IsShared(BlockId block) const;
  void AddNormOfLayer(BlockId block);
  int AddJoin(BlockRange blocks);
  int CompleteBehind(BlockId block) const;
  void AddNormsOfSharedLayers();
  void AddUpdateOfLayer(BlockId block);

  StepWriter& writer_;
  // A piece of a chunk's last backward.
  struct Piece {
    BlockRange blocks;
    int instruction;  // which its gradients are complete behind
  };
  std::vector<Piece> pieces_;
  int last_forward_ = -1, last_compute_ = -1;
};

}  // namespace medley
