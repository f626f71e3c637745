#pragma once
#include <vector>

#include "comm/transport/transport.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The ranks that an instruction cannot end without, as who waits for it wants to know: at the other end of a message, beside
// this rank in a collective. Of a collective's others these are the ones that this rank hears of.
class InstructionPeers {
 public:
  // Of the programs of `train`'s rank. `train` and `transport` outlive it.
  InstructionPeers(const Plan& plan, const StepProgram& train, const Transport& transport);

  std::vector<int> Of(const Instruction& instruction) const;

 private:
  const StepProgram& train_;
  const Transport& transport_;
  const std::vector<int> unit_ranks_, scalar_peers_;
};

}  // namespace medley
