#pragma once
#include <array>
#include <optional>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// The step programs of one rank: of a training step by how it begins and ends (StepEnds), of an evaluation, and of what is
// left to do behind a step that no other follows. All have the same buffers as that of a step between others; those with
// other ends are compiled when they are first asked for.
class StepPrograms {
 public:
  // `plan` is valid. Both outlive it.
  StepPrograms(const Plan& plan, Rank rank, const TrainingShape& shape);

  // Of a training step between others.
  const StepProgram& train() const { return train_; }
  const StepProgram& evaluate() const { return evaluate_; }
  // Behind a training step: what its owners updated goes to all holders. No instructions: nobody owns anything.
  const StepProgram& gathers_alone() const { return gathers_alone_; }
  bool gathers() const { return !gathers_alone_.instructions.empty(); }
  // Whether the rank makes forwards of the next step ahead of the norms.
  bool goes_ahead() const { return train_.buffers.goes_ahead; }

  // Of a training step with these ends.
  const StepProgram& Train(StepEnds ends);
  // No program has more.
  size_t MostInstructions();

 private:
  const Plan& plan_;
  const TrainingShape& shape_;
  const StepProgram train_, evaluate_, gathers_alone_;
  // Training steps with other ends: by whether they begin and go ahead; the first one, which does not gather.
  std::array<std::optional<StepProgram>, 4> others_;
};

}  // namespace medley
