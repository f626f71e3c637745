#include "runtime/engine/exec/step_programs.h"

namespace medley {

StepPrograms::StepPrograms(const Plan& plan, Rank rank, const TrainingShape& shape)
    : plan_(plan),
      shape_(shape),
      train_(CompileStep(plan, rank, shape, Purpose::kTrain)),
      evaluate_(CompileStep(plan, rank, shape, Purpose::kEvaluate)),
      gathers_alone_(GathersAlone(train_)) {}

const StepProgram& StepPrograms::Train(StepEnds ends) {
  if (goes_ahead() ? ends.begins_ahead && ends.goes_ahead : ends.gathers || !gathers()) return train_;
  std::optional<StepProgram>& program = others_[goes_ahead() ? ends.begins_ahead + 2 * ends.goes_ahead : 0];
  if (!program.has_value()) program = CompileStep(plan_, train_.rank, shape_, Purpose::kTrain, ends);
  return *program;
}

size_t StepPrograms::MostInstructions() {
  // A step that begins with nothing made, and goes ahead.
  return Train({.begins_ahead = false}).instructions.size();
}

}  // namespace medley
