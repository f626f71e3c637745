#include <cstdint>
#include <vector>

#include "kernels/cpu/accept.h"

namespace medley {
namespace {

// The logits of one chunk of rows; with a vocabulary of 50257 that is 333 rows. Each chunk reads the weight
// twice and its gradient once, and two cores already outrun the memory with half as many rows.
constexpr int64_t kLogitsBytes = int64_t{64} << 20;
// Fewer rows than this would leave the matmuls starving for a larger vocabulary.
constexpr int64_t kFewestRows = 16;

TypedMatrix Transposed(const TypedMatrix& matrix) { return {matrix.data, matrix.dtype, Transpose::kYes}; }

}  // namespace

// In bf16 x and dx may be bf16, too; the logits are f32.
absl::Status CpuOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(TakesBf16(args.precision, args.columns) ? AcceptTyped(args) : Accept(args));
  if (args.rows == 0) return absl::OkStatus();
  return Run("HeadLoss", [&] {
    const int64_t columns = args.columns, vocabulary = args.vocabulary;
    const int64_t most =
        std::max(kFewestRows, kLogitsBytes / (vocabulary * static_cast<int64_t>(sizeof(float))));
    // Chunks of equal height: a last chunk of a few rows would read and write the whole weight for little.
    const int64_t chunks = (args.rows + most - 1) / most;
    float* logits = scratch_.Floats((args.rows + chunks - 1) / chunks * vocabulary);
    std::vector<double> losses(args.rows);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = args.rows * chunk / chunks, rows = args.rows * (chunk + 1) / chunks - first;
      const TypedMatrix weight = TypedMatrixOf(args.weight), chunk_logits = {logits};
      const TypedMatrix x = TypedMatrixOf(args.x.Sub(first * columns, rows * columns));
      gemm_.Multiply({rows, vocabulary, columns, x, Transposed(weight), chunk_logits}, args.precision,
                     Constness::kParameter);
      LossOfRows(args, first, rows, logits, losses.data() + first);
      if (args.dx.empty()) continue;
      const TypedMatrix dx = TypedMatrixOf(args.dx.Sub(first * columns, rows * columns));
      gemm_.Multiply({rows, columns, vocabulary, chunk_logits, weight, dx}, args.precision,
                     Constness::kParameter);
      gemm_.Multiply({.m = vocabulary,
                      .n = columns,
                      .k = rows,
                      .a = Transposed(chunk_logits),
                      .b = x,
                      .c = TypedMatrixOf(args.dweight),
                      .store = Store::kAdd},
                     args.precision, Constness::kVaries);
    }
    double loss = 0;
    for (double row_loss : losses) loss += row_loss;
    *HostPointer<double>(args.loss_sum) += loss;
  });
}

// The losses of `rows` rows from `first` on; their logits become their gradients if those are wanted.
void CpuOps::LossOfRows(const HeadLossArgs& args, int64_t first, int64_t rows, float* logits,
                        double* losses) {
  const int32_t* targets = HostPointer<int32_t>(args.targets) + first;
#pragma omp parallel for schedule(static) if (rows * args.vocabulary > kChunkElements)
  for (int64_t r = 0; r < rows; ++r) {
    float* row = logits + r * args.vocabulary;
    losses[r] = args.dx.empty()
                    ? kernels_.head_loss_row(row, args.vocabulary, targets[r])
                    : kernels_.head_loss_gradient_row(row, args.vocabulary, targets[r], args.gradient_scale);
  }
}

}  // namespace medley
