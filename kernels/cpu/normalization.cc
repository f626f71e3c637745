#include <omp.h>

#include "kernels/cpu/accept.h"

namespace medley {
namespace {

constexpr int64_t kRowsPerChunk = 16;

}  // namespace

absl::Status CpuOps::LayerNormForward(const LayerNormForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.columns == 0) return absl::OkStatus();
  const float* x = HostPointer<float>(args.x);
  const float* gamma = HostPointer<float>(args.gamma);
  const float* beta = HostPointer<float>(args.beta);
  float* y = HostPointer<float>(args.y);
  float* mean = HostPointer<float>(args.mean);
  float* rstd = HostPointer<float>(args.rstd);
  const int64_t columns = args.columns;
#pragma omp parallel for schedule(static) if (args.rows * columns > kChunkElements)
  for (int64_t first = 0; first < args.rows; first += kRowsPerChunk) {
    const int64_t rows = std::min(kRowsPerChunk, args.rows - first);
    kernels_.layer_norm_forward(x + first * columns, gamma, beta, y + first * columns, mean + first,
                                rstd + first, rows, columns, args.epsilon);
  }
  return absl::OkStatus();
}

// Each thread takes one run of rows and has its own sums of dgamma and dbeta, which are then added in thread
// order.
absl::Status CpuOps::LayerNormBackward(const LayerNormBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.columns == 0) return absl::OkStatus();
  return Run("LayerNormBackward", [&] {
    const int64_t columns = args.columns;
    const int parts = args.rows * columns > kChunkElements ? threads_ : 1;
    float* sums = scratch_.Floats(parts * 2 * columns);
    std::fill_n(sums, parts * 2 * columns, 0.0f);
    const float* dy = HostPointer<float>(args.dy);
    const float* x = HostPointer<float>(args.x);
    const float* gamma = HostPointer<float>(args.gamma);
    const float* mean = HostPointer<float>(args.mean);
    const float* rstd = HostPointer<float>(args.rstd);
    float* dx = HostPointer<float>(args.dx);
    const int add = args.store_dx == Store::kAdd ? 1 : 0;
#pragma omp parallel for schedule(static) if (parts > 1)
    for (int part = 0; part < parts; ++part) {
      const int64_t first = args.rows * part / parts, last = args.rows * (part + 1) / parts;
      float* dgamma = sums + part * 2 * columns;
      kernels_.layer_norm_backward(dy + first * columns, x + first * columns, gamma, mean + first,
                                   rstd + first, dx + first * columns, dgamma, dgamma + columns, last - first,
                                   columns, add);
    }
    kernels_.sum_rows(sums, parts, columns, 2 * columns, HostPointer<float>(args.dgamma));
    kernels_.sum_rows(sums + columns, parts, columns, 2 * columns, HostPointer<float>(args.dbeta));
  });
}

absl::Status CpuOps::RmsNormForward(const RmsNormForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.columns == 0) return absl::OkStatus();
  const float* x = HostPointer<float>(args.x);
  const float* gamma = HostPointer<float>(args.gamma);
  float* y = HostPointer<float>(args.y);
  float* rstd = HostPointer<float>(args.rstd);
  const int64_t columns = args.columns;
#pragma omp parallel for schedule(static) if (args.rows * columns > kChunkElements)
  for (int64_t first = 0; first < args.rows; first += kRowsPerChunk) {
    const int64_t rows = std::min(kRowsPerChunk, args.rows - first);
    kernels_.rms_norm_forward(x + first * columns, gamma, y + first * columns, rstd + first, rows, columns,
                              args.epsilon);
  }
  return absl::OkStatus();
}

absl::Status CpuOps::RmsNormBackward(const RmsNormBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  if (args.columns == 0) return absl::OkStatus();
  return Run("RmsNormBackward", [&] {
    const int64_t columns = args.columns;
    const int parts = args.rows * columns > kChunkElements ? threads_ : 1;
    float* sums = scratch_.Floats(parts * columns);
    std::fill_n(sums, parts * columns, 0.0f);
    const float* dy = HostPointer<float>(args.dy);
    const float* x = HostPointer<float>(args.x);
    const float* gamma = HostPointer<float>(args.gamma);
    const float* rstd = HostPointer<float>(args.rstd);
    float* dx = HostPointer<float>(args.dx);
    const int add = args.store_dx == Store::kAdd ? 1 : 0;
#pragma omp parallel for schedule(static) if (parts > 1)
    for (int part = 0; part < parts; ++part) {
      const int64_t first = args.rows * part / parts, last = args.rows * (part + 1) / parts;
      kernels_.rms_norm_backward(dy + first * columns, x + first * columns, gamma, rstd + first,
                                 dx + first * columns, sums + part * columns, last - first, columns, add);
    }
    kernels_.sum_rows(sums, parts, columns, columns, HostPointer<float>(args.dgamma));
  });
}

}  // namespace medley
