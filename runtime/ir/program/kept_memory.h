#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/ir/program/pass_graph.h"

// What passes change of what their unit keeps (TimedStage).
namespace medley {

// This much more must be free when a pass begins, and it leaves so much more when it has ended.
struct MemoryChange {
  double begin = 0, end = 0;
};
MemoryChange MemoryChangeOf(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction);

// The same of a unit whose buffers are used again for what they are made for alone, as the compiler has it: those of what one chunk's
// forwards keep, and those of what lies between the two gradients of its backwards.
class KeptBuffers {
 public:
  // As if there were none yet.
  explicit KeptBuffers(const PassGraph& graph, UnitId unit);

  // Has one of each kind that passes of the unit need, whatever they are: as long as there is one of each, no unit waits for ever.
  // `splits`: of each stage, whether any of its backwards is two passes.
  void HaveOneOfEach(const PassGraph& graph, UnitId unit, const std::vector<char>& splits);

  // How many more bytes there must be for a pass to begin.
  double MoreFor(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction) const;
  void Run(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction);
  double total() const { return total_; }  // of all buffers that there are

 private:
  struct Pool {
    double used = 0, all = 0;
  };
  using Changes = std::array<double, 2>;  // of what forwards keep, of what lies between gradients
  static Changes ChangesOf(const PassGraph::Stage& stage, PassKind kind, bool joined, Direction direction);

  std::vector<std::array<Pool, 2>> chunks_;
  double total_ = 0;
};

}  // namespace medley
