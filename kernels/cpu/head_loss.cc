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

}  // namespace

absl::Status CpuOps::HeadLoss(const HeadLossArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.rows == 0) return absl::OkStatus();
  return Run("HeadLoss", [&] {
    const float* x = HostPointer<float>(args.x);
    const float* weight = HostPointer<float>(args.weight);
    const int32_t* targets = HostPointer<int32_t>(args.targets);
    float* dx = HostPointer<float>(args.dx);
    float* dweight = HostPointer<float>(args.dweight);
    const int64_t columns = args.columns, vocabulary = args.vocabulary;
    const int64_t most =
        std::max(kFewestRows, kLogitsBytes / (vocabulary * static_cast<int64_t>(sizeof(float))));
    // Chunks of equal height: a last chunk of a few rows would read and write the whole weight for little.
    const int64_t chunks = (args.rows + most - 1) / most;
    float* logits = scratch_.Floats((args.rows + chunks - 1) / chunks * vocabulary);
    std::vector<double> losses(args.rows);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = args.rows * chunk / chunks, rows = args.rows * (chunk + 1) / chunks - first;
      const float* chunk_x = x + first * columns;
      gemm_.Multiply({.m = rows,
                      .n = vocabulary,
                      .k = columns,
                      .a = {chunk_x, columns},
                      .b = {weight, columns, Transpose::kYes},
                      .c = logits,
                      .c_stride = vocabulary},
                     args.precision, Constness::kParameter);
#pragma omp parallel for schedule(static) if (rows * vocabulary > kChunkElements)
      for (int64_t r = 0; r < rows; ++r) {
        float* row = logits + r * vocabulary;
        const int64_t target = targets[first + r];
        losses[first + r] =
            dx == nullptr ? kernels_.head_loss_row(row, vocabulary, target)
                          : kernels_.head_loss_gradient_row(row, vocabulary, target, args.gradient_scale);
      }
      if (dx == nullptr) continue;
      gemm_.Multiply({.m = rows,
                      .n = columns,
                      .k = vocabulary,
                      .a = {logits, vocabulary},
                      .b = {weight, columns},
                      .c = dx + first * columns,
                      .c_stride = columns},
                     args.precision, Constness::kParameter);
      gemm_.Multiply({.m = vocabulary,
                      .n = columns,
                      .k = rows,
                      .a = {logits, vocabulary, Transpose::kYes},
                      .b = {chunk_x, columns},
                      .c = dweight,
                      .c_stride = columns,
                      .store = Store::kAdd},
                     args.precision, Constness::kVaries);
    }
    double loss = 0;
    for (double row_loss : losses) loss += row_loss;
    *HostPointer<double>(args.loss_sum) += loss;
  });
}

}  // namespace medley
