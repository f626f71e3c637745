#pragma once
#include <array>
#include <limits>
#include <vector>

#include "runtime/ir/program/kept_memory.h"
#include "runtime/ir/program/pass_graph.h"
#include "runtime/ir/program/pass_simulation.h"

namespace medley {

// By which a unit chooses among the passes that it could begin. Passes of one kind and visit are taken in the
// order of the micro-batches; backwards, from the last.
struct ListRule {
  // Of each pass: of those that could begin first, a unit takes the one with the smallest.
  std::vector<double> key;
  // Of each pass, as PassOrders has it; empty: none is.
  std::vector<char> joined;
  // Of each unit: what it may keep (TimedStage). Empty: no limit.
  std::vector<double> memory_limit;
  // Whether that is of buffers (KeptBuffers), of which a unit then has one of each kind from the begin.
  bool in_buffers = false;
  // Onwards, forwards leave as much of it as a unit keeps more between the two gradients of a backward than before: a unit that is full
  // of forwards alone never runs another pass.
  bool leaves_room = false;
  // Of each stage: forwards whose gradient is to come, at most. Empty: no limit.
  struct StageLimit {
    int before_input_gradient = std::numeric_limits<int>::max();
    int before_weight_gradient = std::numeric_limits<int>::max();
  };
  std::vector<StageLimit> stage_limit;
  // Of each stage, by kind: a unit's passes of a phase come after all of those before. Empty: no phases.
  std::vector<std::array<int, kPassKinds>> phase;
  // Of each unit: forwards whose last gradient is to come, at most. Empty: no limit.
  std::vector<int> unit_limit;
  // When no unit can go on within what it may keep.
  enum class WhenFull : uint8_t {
    kFail,
    kTakeOneMore,  // the forward with the smallest key is run all the same
  };
  WhenFull when_full = WhenFull::kFail;
};

// Runs all passes of `simulation`'s graph: again and again, the pass that can begin first of all units'; each
// unit is free from `free_from` on. Leaves the passes' times in `simulation`, the orders (onwards, whatever
// the direction) in `orders`. False: no unit could go on.
bool ScheduleByList(const PassGraph& graph, const ListRule& rule, const std::vector<double>& free_from,
                    PassSimulation& simulation, PassOrders& orders);

}  // namespace medley
