#pragma once
#include <vector>

#include "absl/types/span.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

// What of a rank's buffers is in use from a moment on.
struct MemoryUse {
  double from_seconds = 0;        // from the start of the step
  Bytes activations, boundaries;  // as of RankMemory, which has what is reserved for them
};

// How much of what is reserved for a rank's micro-batches is in use when: a buffer is from the start of the
// instruction that fills it to the end of the one that releases it. All else that a rank needs is in use all the
// time. Ascending, the first at 0; each differs from the one before. Buffers have the size of the largest
// micro-batch, whatever they hold. `program` and `timeline` are those of one rank of a valid plan. Pure.
std::vector<MemoryUse> MemoryUseOf(const Plan& plan, const StepProgram& program,
                                   absl::Span<const InstructionTime> timeline, const TrainingShape& shape);

}  // namespace medley
