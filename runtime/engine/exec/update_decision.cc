#include "runtime/engine/exec/update_decision.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "runtime/base/counted.h"

namespace medley {

absl::Status UpdateDecision::Decide(int64_t step, double loss_sum, double scaled_norm) {
  const double scale = static_cast<double>(loss_scale_.factor), norm = scaled_norm / scale;
  skipped_ = !std::isfinite(loss_sum) || !std::isfinite(norm);
  if (skipped_) return Skip(loss_sum, norm);
  skipped_in_a_row_ = 0;
  update_ = Unclipped(step);
  loss_scale_.Grow(spec_.precision);
  const double clip_norm = spec_.optimizer.clip_norm;
  clipped_ = clip_norm > 0 && norm > clip_norm;
  if (clipped_) update_->gradient_scale = static_cast<float>(clip_norm / (norm + 1e-6) / scale);
  return absl::OkStatus();
}

absl::Status UpdateDecision::Skip(double loss_sum, double norm) {
  if (!loss_scale_.Shrink()) {
    if (skipped_in_a_row_ >= spec_.optimizer.skip_non_finite) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the %s is not finite (loss sum %g, gradient norm %g)%s; nothing was updated. Submit the job "
          "again, from a checkpoint (checkpoint.resume_from), with a lower learning rate, a longer warm-up, "
          "gradient clipping or a larger optimizer.skip_non_finite; `medley resume` comes to the same step",
          std::isfinite(loss_sum) ? "gradient norm" : "loss", loss_sum, norm,
          skipped_in_a_row_ > 0
              ? absl::StrFormat(", after %s in a row that %s skipped", Counted(skipped_in_a_row_, "step"),
                                skipped_in_a_row_ == 1 ? "was" : "were")
          : spec_.precision == Precision::kF16 ? " with a loss scale of 1"
                                               : ""));
    }
    ++skipped_in_a_row_;
  }
  update_ = std::nullopt;
  return absl::OkStatus();
}

ModelShard::Update UpdateDecision::Unclipped(int64_t step) const {
  const OptimizerSettings& optimizer = spec_.optimizer;
  return {.learning_rate = static_cast<float>(LearningRateAt(optimizer, step, spec_.steps)),
          .beta1 = static_cast<float>(optimizer.beta1),
          .beta2 = static_cast<float>(optimizer.beta2),
          .epsilon = static_cast<float>(optimizer.epsilon),
          .weight_decay = static_cast<float>(optimizer.weight_decay),
          .gradient_scale = static_cast<float>(1.0 / static_cast<double>(loss_scale_.factor)),
          .step = step};
}

}  // namespace medley
