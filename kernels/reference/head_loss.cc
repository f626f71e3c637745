#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* weight = HostPointer<float>(args.weight);
  const bool with_gradients = !args.dx.empty();
  const int64_t columns = args.columns;
  std::vector<double> logits(args.vocabulary);
  std::vector<double> dx(columns);
  std::vector<double> dweight(with_gradients && args.rows > 0 ? args.vocabulary * columns : 0);
  double loss = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = HostPointer<float>(args.x) + r * columns;
    const int64_t target = HostPointer<int32_t>(args.targets)[r];
    for (int64_t v = 0; v < args.vocabulary; ++v) {
      logits[v] = 0;
      for (int64_t c = 0; c < columns; ++c) {
        logits[v] += Operand(x[c], args.precision) * Operand(weight[v * columns + c], args.precision);
      }
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits) sum += std::exp(logit - largest);
    const double log_sum_exp = largest + std::log(sum);
    loss += log_sum_exp - logits[target];
    if (!with_gradients) continue;
    std::fill(dx.begin(), dx.end(), 0.0);
    for (int64_t v = 0; v < args.vocabulary; ++v) {
      const double probability = std::exp(logits[v] - log_sum_exp);
      const float exact = static_cast<float>(args.gradient_scale * (probability - (v == target ? 1.0 : 0.0)));
      const double d_logit = Operand(exact, args.precision);
      for (int64_t c = 0; c < columns; ++c) {
        dx[c] += d_logit * Operand(weight[v * columns + c], args.precision);
        dweight[v * columns + c] += d_logit * Operand(x[c], args.precision);
      }
    }
    for (int64_t c = 0; c < columns; ++c)
      HostPointer<float>(args.dx)[r * columns + c] = static_cast<float>(dx[c]);
  }
  float* dweight_out = HostPointer<float>(args.dweight);
  for (size_t i = 0; i < dweight.size(); ++i)
    dweight_out[i] = static_cast<float>(dweight_out[i] + dweight[i]);
  *HostPointer<double>(args.loss_sum) += loss;
  return absl::OkStatus();
}

}  // namespace medley
