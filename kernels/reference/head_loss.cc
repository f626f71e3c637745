#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/arguments/token_row.h"
#include "kernels/reference/accept.h"

namespace medley {
namespace {

// Of any op of the head; the first `vocabulary` of `logits`.
template <typename Args>
void LogitsOfRow(const Args& args, int64_t r, std::vector<double>& logits) {
  const float* x = HostPointer<float>(args.x) + r * args.columns;
  const float* weight = HostPointer<float>(args.weight);
  for (int64_t v = 0; v < args.vocabulary; ++v) {
    logits[v] = 0;
    for (int64_t c = 0; c < args.columns; ++c) {
      logits[v] += Operand(x[c], args.precision) * Operand(weight[v * args.columns + c], args.precision);
    }
  }
}

double LogSumExp(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

// Writes dx row by row and sums up dweight, which it stores at the end.
template <typename Args>
class HeadGradients {
 public:
  explicit HeadGradients(const Args& args)
      : args_(args),
        dx_(args.columns),
        dweight_(args.rows > 0 && !args.dweight.empty() ? args.vocabulary * args.columns : 0) {}

  // `target` is the row of weight that the target has, -1: none.
  void AddRow(int64_t r, const std::vector<double>& logits, double log_sum_exp, int64_t target) {
    const float* x = HostPointer<float>(args_.x) + r * args_.columns;
    const float* weight = HostPointer<float>(args_.weight);
    std::fill(dx_.begin(), dx_.end(), 0.0);
    for (int64_t v = 0; v < args_.vocabulary; ++v) {
      const double probability = std::exp(logits[v] - log_sum_exp);
      const float exact =
          static_cast<float>(args_.gradient_scale * (probability - (v == target ? 1.0 : 0.0)));
      const double d_logit = Operand(exact, args_.precision);
      for (int64_t c = 0; c < args_.columns; ++c) {
        dx_[c] += d_logit * Operand(weight[v * args_.columns + c], args_.precision);
        dweight_[v * args_.columns + c] += d_logit * Operand(x[c], args_.precision);
      }
    }
    for (int64_t c = 0; c < args_.columns; ++c)
      HostPointer<float>(args_.dx)[r * args_.columns + c] = static_cast<float>(dx_[c]);
  }

  void AddToWeight() {
    float* out = HostPointer<float>(args_.dweight);
    for (size_t i = 0; i < dweight_.size(); ++i) out[i] = static_cast<float>(out[i] + dweight_[i]);
  }

 private:
  const Args& args_;
  std::vector<double> dx_, dweight_;
};

}  // namespace

absl::Status ReferenceOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const bool with_gradients = !args.dx.empty();
  std::vector<double> logits(args.vocabulary);
  HeadGradients gradients(args);
  double loss = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t target = HostPointer<int32_t>(args.targets)[r];
    LogitsOfRow(args, r, logits);
    const double log_sum_exp = LogSumExp(logits);
    loss += log_sum_exp - logits[target];
    if (with_gradients) gradients.AddRow(r, logits, log_sum_exp, target);
  }
  if (with_gradients) gradients.AddToWeight();
  *HostPointer<double>(args.loss_sum) += loss;
  return absl::OkStatus();
}

absl::Status ReferenceOps::HeadStatistics(const HeadStatisticsArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  std::vector<double> logits(args.vocabulary);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t target = RowOfToken(args, HostPointer<int32_t>(args.targets)[r]);
    LogitsOfRow(args, r, logits);
    HostPointer<float>(args.log_sum_exp)[r] = static_cast<float>(LogSumExp(logits));
    HostPointer<float>(args.target_logit)[r] = target < 0 ? 0.0f : static_cast<float>(logits[target]);
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::JoinHeadStatistics(const JoinHeadStatisticsArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* statistics = HostPointer<float>(args.statistics);
  std::vector<double> of_members(args.members);
  double loss = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t member = 0; member < args.members; ++member)
      of_members[member] = statistics[member * args.rows + r];
    const double log_sum_exp = LogSumExp(of_members);
    HostPointer<float>(args.log_sum_exp)[r] = static_cast<float>(log_sum_exp);
    loss += log_sum_exp - statistics[args.members * args.rows + r];
  }
  if (!args.loss_sum.empty()) *HostPointer<double>(args.loss_sum) += loss;
  return absl::OkStatus();
}

absl::Status ReferenceOps::HeadGradient(const HeadGradientArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  std::vector<double> logits(args.vocabulary);
  HeadGradients gradients(args);
  for (int64_t r = 0; r < args.rows; ++r) {
    LogitsOfRow(args, r, logits);
    gradients.AddRow(r, logits, HostPointer<float>(args.log_sum_exp)[r],
                     RowOfToken(args, HostPointer<int32_t>(args.targets)[r]));
  }
  gradients.AddToWeight();
  return absl::OkStatus();
}

}  // namespace medley
