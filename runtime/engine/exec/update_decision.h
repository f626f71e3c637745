#pragma once
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/job/loss_scale.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// What becomes of a step once the sums of its losses and norms are known: it updates, with its gradients clipped or not, or
// it is skipped. Every rank decides by the same bits, and so the same.
//
// A step whose loss or gradient is not finite updates nothing. If the loss is scaled, the scale halves for it; a scale of 1 has
// nothing to answer for: then it is one of the steps in a row that the job skips.
class UpdateDecision {
 public:
  // `spec` outlives it. `loss_scale`: with which the first step is computed.
  UpdateDecision(const TrainingSpec& spec, LossScale loss_scale) : spec_(spec), loss_scale_(loss_scale) {}

  // Of step `step` (from 1), which was computed with the loss scale so far. `scaled_norm`: of gradients that are multiplied by it.
  // InvalidArgument: one step in a row more than the job skips was not finite.
  absl::Status Decide(int64_t step, double loss_sum, double scaled_norm);
  // The update of step `step` if nothing is clipped, before that is known.
  ModelShard::Update Unclipped(int64_t step) const;

  // Of the step that was last decided; none: it is skipped.
  const std::optional<ModelShard::Update>& update() const { return update_; }
  // Whether that one is.
  bool skipped() const { return skipped_; }
  // Whether the last step that was not skipped was clipped.
  bool clipped() const { return clipped_; }
  // With which the next step is computed.
  const LossScale& loss_scale() const { return loss_scale_; }

 private:
  absl::Status Skip(double loss_sum, double norm);

  const TrainingSpec& spec_;
  LossScale loss_scale_;
  std::optional<ModelShard::Update> update_;
  bool skipped_ = false, clipped_ = false;
  int skipped_in_a_row_ = 0;  // that no loss scale answers for
};

}  // namespace medley
