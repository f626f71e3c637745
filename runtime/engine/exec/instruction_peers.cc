#include "runtime/engine/exec/instruction_peers.h"

#include "runtime/ir/collective/scalar_tree.h"

namespace medley {

InstructionPeers::InstructionPeers(const Plan& plan, const StepProgram& train, const Transport& transport)
    : train_(train),
      transport_(transport),
      unit_ranks_(RanksOf(plan, train.unit)),
      scalar_peers_(ScalarTree(RankCount(plan)).PeersOf(train.rank.value())) {}

std::vector<int> InstructionPeers::Of(const Instruction& instruction) const {
  std::vector<int> peers;
  if (instruction.peer >= 0) peers.push_back(instruction.peer.value());
  if (IsOfSlice(instruction.kind)) {
    const std::vector<Rank>& holders = train_.slices[instruction.slice].holders;
    peers.assign(holders.begin(), holders.end());
  }
  if (instruction.kind == InstructionKind::kReduceScalars) peers = scalar_peers_;
  if (IsOfUnit(instruction.kind)) peers = unit_ranks_;
  std::erase_if(peers, [this](int peer) { return !transport_.IsPeer(peer); });
  return peers;
}

}  // namespace medley
