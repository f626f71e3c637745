#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {

// Where passes have what forwards computed and gradients need: it is kept, it is away meanwhile, or it is made again.
//
// Of each micro-batch a chunk keeps two contents. What the blocks keep that may go home (HomedBlocks) is in kLeavingStash,
// what the others keep in kStash; a forward fills them, in pieces, and the last pass that makes weights' gradients
// releases them. A micro-batch whose homed part makes a trip (StashTripsOf) stores it behind its forward, and it comes back
// ahead of its gradient into a content of its own. What is not kept of a layer has a content of its own, too, each time that it
// is made (kRecomputed).
class KeptActivations {
 public:
  // Of a writer whose buffers say what the unit is like; `order` is what it does, first to last. Both outlive it.
  KeptActivations(StepWriter& writer, const UnitOrder& order);

  // Makes `pass`, which says which blocks it is of, use what micro-batch `i` of the visit at hand keeps of them.
  void AddTo(Instruction& pass, int i) const;

  // Behind the forward of micro-batch `i` of the visit at hand: writes the store of what goes home, if anything does.
  void StoreBehindForward(int i);
  // Ahead of the pass at index `pass` of the order: writes the fetch that has its time, if any. Enters another visit then.
  void FetchAhead(size_t pass);

  // Whether some layer of `blocks` is made again.
  bool MakesAgain(BlockRange blocks) const;
  // What is made of a layer.
  Operand MakeLayer(bool releases);

 private:
  void FindTrips();
  void AddTo(Instruction& pass, int i, BufferKind kind, BlockRange part) const;
  bool GoesHome(int i) const { return goes_home_[writer_.ContentOf(writer_.visit(), i)]; }
  // What a forward kept and went home, as it is back.
  Operand UseFetched(int i) const;
  void AddCopy(Instruction copy);

  StepWriter& writer_;
  const UnitOrder& order_;
  const HomedBlocks homed_blocks_;
  const LayersMadeAgain made_again_;
  std::vector<bool> goes_home_;      // by content
  std::vector<int> fetched_before_;  // by pass, the gradient whose stash is fetched before it; -1: none
  int made_layers_ = 0;
};

}  // namespace medley
