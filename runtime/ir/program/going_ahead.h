#pragma once
#include <set>
#include <utility>
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// Which forwards of the next step come before a step's norms are known, in a plan with post-validation (Qi et al. 2023,
// "Zero Bubble Pipeline Parallelism", section 4).
//
// Of each unit those before its first gradient (Unit::forwards_ahead of them), as far as what they take in is itself made
// ahead. So a forward that goes
// ahead is made from parameters that went ahead alone, whatever is made ahead can be made again by every unit without
// telling any other, and no unit waits for norms before it would have waited for the gradients that come back: these
// are made behind them.
class GoingAhead {
 public:
  // `plan` is valid. Without post-validation nothing goes ahead, and in an evaluation nothing does.
  explicit GoingAhead(const Plan& plan, Purpose purpose = Purpose::kTrain);

  // How many of the unit's forwards, its first ones.
  int ForwardsOf(UnitId unit) const { return forwards_[unit]; }
  bool Contains(StageId stage, MicroBatchId micro_batch) const {
    return ahead_.contains({stage.value(), micro_batch.value()});
  }

 private:
  std::vector<int> forwards_;
  std::set<std::pair<int, int>> ahead_;  // by stage and micro-batch
};

// The same step with other ends. `whole` has all of a step and nothing of another; its first `ahead` instructions are
// gathers of what the step before updated, which only a step that gathers has; or, in a plan with post-validation,
// the forwards that may go ahead, with what they take in, and what of theirs is taken in ahead, too. A step that begins
// ahead lacks these; one that goes ahead has them once more, for the next step, between its norm and its update, behind
// kAdvanceParameters. Each step ends on its rank before the next one begins there, which other ranks may be ahead of.
StepProgram WithEnds(const StepProgram& whole, int ahead, StepEnds ends);

// The programs of the first `steps` steps in a row as one, the last ones as they are for ever after: the micro-batches of
// the second are numbered on from the first one's, and so on. All of a step comes before all of the next. In the first one all
// holders have the parameters.
StepProgram StepsInARow(const Plan& plan, Rank rank, const TrainingShape& shape, int steps);

}  // namespace medley
