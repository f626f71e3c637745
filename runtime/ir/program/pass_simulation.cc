#include "runtime/ir/program/pass_simulation.h"

namespace medley {

PassSimulation::PassSimulation(const PassGraph& graph, Direction direction)
    : graph_(graph), direction_(direction) {}

void PassSimulation::Reset(const std::vector<char>& joined, const std::vector<double>& free_from) {
  ends_.assign(graph_.passes(), kNever);
  seconds_ = graph_.seconds();
  free_at_ = free_from;
  for (int pass = 0; pass < static_cast<int>(joined.size()); ++pass) {
    if (joined[pass] == 0) continue;
    const PassGraph::Pass& of_input = graph_.pass(pass);
    const int of_weights = graph_.PassOf(of_input.stage, PassKind::kWeightGradient, of_input.micro_batch);
    seconds_[pass] += seconds_[of_weights] - graph_.StageOf(pass).split_seconds;
    ends_[of_weights] = kLongAgo;
  }
}

bool PassSimulation::RunOrders(const PassOrders& orders, const std::vector<double>& free_from) {
  Reset(orders.joined, free_from);
  const int units = graph_.units();
  const bool onwards = direction_ == Direction::kOnwards;
  run_.assign(units, 0);
  // Each sweep takes units as far as they come; forwards go one way through them and gradients the other.
  bool moved = true, done = false;
  for (bool up = true; moved && !done; up = !up) {
    moved = false;
    done = true;
    for (int i = 0; i < units; ++i) {
      const int u = up ? i : units - 1 - i;
      const std::vector<int>& passes = orders.of_unit[u];
      const int count = static_cast<int>(passes.size());
      for (; run_[u] < count; ++run_[u]) {
        const int pass = passes[onwards ? run_[u] : count - 1 - run_[u]];
        if (ReadyAt(pass) == kNever) break;
        Run(pass);
        moved = true;
      }
      done = done && run_[u] == count;
    }
  }
  return done;
}

}  // namespace medley
