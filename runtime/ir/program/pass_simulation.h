#pragma once
#include <limits>
#include <vector>

#include "runtime/ir/program/pass_graph.h"

namespace medley {

// The passes of a step in virtual time, each as soon as its unit is free and what it waits for is there: the
// one simulation behind schedules (list_schedule.h), listed orders and what they are worth
// (evaluate_orders.h). Messages travel beside everything else. Who runs next is the caller's to say.
//
// Backwards, a step is played from its end: times are negative, and passes wait for those that wait for
// them.
//
// Keeps its buffers from run to run, and a reference to `graph`. Not thread-safe.
class PassSimulation {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  PassSimulation(const PassGraph& graph, Direction direction);

  // Nothing has run; each unit is free from `free_from` on. `joined`: as PassOrders has it.
  void Reset(const std::vector<char>& joined, const std::vector<double>& free_from);

  Direction direction() const { return direction_; }
  // When what `pass` waits for is there; kNever: some of it has not run. Far in the past if it waits for
  // nothing.
  double ReadyAt(int pass) const {
    const PassGraph::Waits& waits = graph_.WaitsOf(pass, direction_);
    double ready = kLongAgo;
    for (int i = 0; i < 2 && waits.passes[i] >= 0; ++i) {
      const double end = ends_[waits.passes[i]];
      if (end == kNever) return kNever;
      ready = end + waits.seconds[i] > ready ? end + waits.seconds[i] : ready;
    }
    return ready;
  }
  double FreeAt(UnitId unit) const { return free_at_[unit]; }
  // Runs a pass that is ready, in its unit's time.
  void Run(int pass) {
    double& now = free_at_[graph_.StageOf(pass).unit];
    const double ready = ReadyAt(pass);
    now = (ready > now ? ready : now) + seconds_[pass];
    ends_[pass] = now;
  }
  // Runs all of `orders`, each unit's in its order; backwards, from the last. False: some units wait for each
  // other, having run so many passes as RunOf says.
  bool RunOrders(const PassOrders& orders, const std::vector<double>& free_from);
  int RunOf(UnitId unit) const { return run_[unit]; }

  // Of passes that have run.
  double EndOf(int pass) const { return ends_[pass]; }
  double BeginOf(int pass) const { return ends_[pass] - seconds_[pass]; }

 private:
  static constexpr double kLongAgo = std::numeric_limits<double>::lowest();

  const PassGraph& graph_;
  const Direction direction_;
  std::vector<double> seconds_, ends_;  // of each pass; kNever: it has not run
  std::vector<double> free_at_;         // of each unit
  std::vector<int> run_;                // of each unit, in RunOrders
};

}  // namespace medley
