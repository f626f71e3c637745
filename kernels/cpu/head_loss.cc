#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/arguments/token_row.h"
#include "kernels/cpu/accept.h"
#include "runtime/base/op_scratch.h"

namespace medley {
namespace {

TypedMatrix Transposed(const TypedMatrix& matrix) {
  return {matrix.data, matrix.dtype, Transpose::kYes, matrix.stride};
}

}  // namespace

template <typename Args, typename Work>
void CpuOps::ForEachLogits(const Args& args, const Work& work) {
  const int64_t columns = args.columns, vocabulary = args.vocabulary;
  // Scratch that is set aside may be that of larger micro-batches, in parts of fewer rows.
  const int64_t set_aside_rows = set_aside_.elements / vocabulary,
                rows_of_part = LogitsRows(args.rows, vocabulary, args.x.dtype);
  const int64_t most = set_aside_rows > 0 ? std::min(set_aside_rows, rows_of_part) : rows_of_part;
  // Chunks of equal height: a last chunk of a few rows would read and write the whole weight for little.
  const int64_t chunks = (args.rows + most - 1) / most;
  float* logits = set_aside_rows > 0 ? HostPointer<float>(set_aside_)
                                     : scratch_.Floats((args.rows + chunks - 1) / chunks * vocabulary);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t first = args.rows * chunk / chunks, rows = args.rows * (chunk + 1) / chunks - first;
    const TypedMatrix weight = TypedMatrixOf(args.weight), chunk_logits = {logits};
    const TypedMatrix x = TypedMatrixOf(args.x.Sub(first * columns, rows * columns));
    gemm_.Multiply({rows, vocabulary, columns, x, Transposed(weight), chunk_logits}, args.precision,
                   Constness::kParameter);
    work(first, rows, logits);
  }
}

template <typename Args>
void CpuOps::AddHeadGradients(const Args& args, int64_t first, int64_t rows, float* d_logits) {
  const int64_t columns = args.columns, vocabulary = args.vocabulary;
  const TypedMatrix weight = TypedMatrixOf(args.weight);
  const TypedMatrix gradients = TakesBf16(args.precision, columns)
                                    ? gemm_.RoundInPlace(d_logits, rows, vocabulary)
                                    : TypedMatrix{d_logits};
  const TypedMatrix x = TypedMatrixOf(args.x.Sub(first * columns, rows * columns));
  const TypedMatrix dx = TypedMatrixOf(args.dx.Sub(first * columns, rows * columns));
  gemm_.Multiply({rows, columns, vocabulary, gradients, weight, dx}, args.precision, Constness::kParameter);
  gemm_.Multiply({.m = vocabulary,
                  .n = columns,
                  .k = rows,
                  .a = Transposed(gradients),
                  .b = x,
                  .c = TypedMatrixOf(args.dweight),
                  .store = Store::kAdd},
                 args.precision, Constness::kVaries);
}

// In bf16 x and dx may be bf16, too; the logits are f32.
absl::Status CpuOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(TakesBf16(args.precision, args.columns) ? AcceptTyped(args) : Accept(args));
  if (args.rows == 0) return absl::OkStatus();
  return Run("HeadLoss", [&] {
    const int32_t* targets = HostPointer<int32_t>(args.targets);
    const bool with_gradients = !args.dx.empty();
    std::vector<double> losses(args.rows);
    ForEachLogits(args, [&](int64_t first, int64_t rows, float* logits) {
#pragma omp parallel for schedule(static) if (rows * args.vocabulary > kChunkElements)
      for (int64_t r = 0; r < rows; ++r) {
        float* row = logits + r * args.vocabulary;
        const int32_t target = targets[first + r];
        losses[first + r] = with_gradients ? kernels_.head_loss_gradient_row(row, args.vocabulary, target,
                                                                             args.gradient_scale)
                                           : kernels_.head_loss_row(row, args.vocabulary, target);
      }
      if (with_gradients) AddHeadGradients(args, first, rows, logits);
    });
    double loss = 0;
    for (double row_loss : losses) loss += row_loss;
    *HostPointer<double>(args.loss_sum) += loss;
  });
}

absl::Status CpuOps::HeadStatistics(const HeadStatisticsArgs& args) {
  RETURN_IF_ERROR(TakesBf16(args.precision, args.columns) ? AcceptTyped(args) : Accept(args));
  if (args.rows == 0) return absl::OkStatus();
  return Run("HeadStatistics", [&] {
    const int32_t* targets = HostPointer<int32_t>(args.targets);
    float* log_sum_exp = HostPointer<float>(args.log_sum_exp);
    float* target_logit = HostPointer<float>(args.target_logit);
    ForEachLogits(args, [&](int64_t first, int64_t rows, const float* logits) {
#pragma omp parallel for schedule(static) if (rows * args.vocabulary > kChunkElements)
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = logits + r * args.vocabulary;
        const int64_t target = RowOfToken(args, targets[first + r]);
        log_sum_exp[first + r] = static_cast<float>(kernels_.log_sum_exp_row(row, args.vocabulary));
        target_logit[first + r] = target < 0 ? 0.0f : row[target];
      }
    });
  });
}

// In f64: a few numbers a row.
absl::Status CpuOps::JoinHeadStatistics(const JoinHeadStatisticsArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  return Run("JoinHeadStatistics", [&] {
    const float* statistics = HostPointer<float>(args.statistics);
    float* log_sum_exp = HostPointer<float>(args.log_sum_exp);
    std::vector<double> losses(args.rows);
#pragma omp parallel for schedule(static) if (args.members * args.rows > kChunkElements)
    for (int64_t r = 0; r < args.rows; ++r) {
      double largest = statistics[r], sum = 0;
      for (int64_t member = 1; member < args.members; ++member)
        largest = std::max<double>(largest, statistics[member * args.rows + r]);
      for (int64_t member = 0; member < args.members; ++member)
        sum += std::exp(statistics[member * args.rows + r] - largest);
      const double joined = largest + std::log(sum);
      log_sum_exp[r] = static_cast<float>(joined);
      losses[r] = joined - statistics[args.members * args.rows + r];
    }
    if (args.loss_sum.empty()) return;
    double loss = 0;
    for (double row_loss : losses) loss += row_loss;
    *HostPointer<double>(args.loss_sum) += loss;
  });
}

absl::Status CpuOps::HeadGradient(const HeadGradientArgs& args) {
  RETURN_IF_ERROR(TakesBf16(args.precision, args.columns) ? AcceptTyped(args) : Accept(args));
  if (args.rows == 0) return absl::OkStatus();
  return Run("HeadGradient", [&] {
    const int32_t* targets = HostPointer<int32_t>(args.targets);
    const float* log_sum_exp = HostPointer<float>(args.log_sum_exp);
    ForEachLogits(args, [&](int64_t first, int64_t rows, float* logits) {
#pragma omp parallel for schedule(static) if (rows * args.vocabulary > kChunkElements)
      for (int64_t r = 0; r < rows; ++r) {
        kernels_.head_gradient_row(logits + r * args.vocabulary, args.vocabulary,
                                   RowOfToken(args, targets[first + r]), log_sum_exp[first + r],
                                   args.gradient_scale);
      }
      AddHeadGradients(args, first, rows, logits);
    });
  });
}

}  // namespace medley
