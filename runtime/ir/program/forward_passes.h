#pragma once
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/going_ahead.h"
#include "runtime/ir/program/kept_activations.h"
#include "runtime/ir/program/parameter_gathers.h"
#include "runtime/ir/program/step_end.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {

// Writes forwards with what they send. A forward is one piece where it can be: where layers have windows a piece is a
// block, and the first forward of a chunk is cut where parameters are that are still on their way (ParameterGathers).
class ForwardPasses {
 public:
  // All outlive it.
  ForwardPasses(StepWriter& writer, KeptActivations& kept, StepEnd& end, const ParameterGathers& gathers,
                const GoingAhead& going_ahead);

  // Of one chunk, whose inputs have been received: a piece of each pass, then the next piece of each.
  void Write(absl::Span<const UnitOp> passes);

  // What the forwards that go ahead have put out for units that take it in later: it goes with the rest of the step.
  void SendWhatWaits();

 private:
  BlockId EndOfPiece(BlockId first, bool first_of_chunk) const;
  void SendOutput(int i);

  StepWriter& writer_;
  KeptActivations& kept_;
  StepEnd& end_;
  const ParameterGathers& gathers_;
  const GoingAhead& going_ahead_;
  std::vector<bool> forwarded_;                  // by chunk: whether some forward has gone through it
  std::vector<std::pair<int, int>> sent_later_;  // of visits and micro-batches
};

}  // namespace medley
