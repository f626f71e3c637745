#include <numeric>
#include <vector>

#include "kernels/arguments/adamw_step.h"
#include "kernels/cpu/accept.h"

namespace medley {

absl::Status CpuOps::Add(const AddArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* a = HostPointer<float>(args.a);
  const float* b = HostPointer<float>(args.b);
  float* c = HostPointer<float>(args.c);
  ForEachChunk(args.elements,
               [&](int64_t first, int64_t count) { kernels_.add(a + first, b + first, c + first, count); });
  return absl::OkStatus();
}

absl::Status CpuOps::SumRows(const SumRowsArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* out = HostPointer<float>(args.out);
  const int parts = args.rows * args.columns > kChunkElements ? threads_ : 1;
  // By columns, so that the order of every sum is that of the rows.
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int part = 0; part < parts; ++part) {
    const int64_t first = args.columns * part / parts, last = args.columns * (part + 1) / parts;
    kernels_.sum_rows(x + first, args.rows, last - first, args.columns, out + first);
  }
  return absl::OkStatus();
}

absl::Status CpuOps::AdamW(const AdamWArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const AdamWStep step = MakeAdamWStep(args);
  float* parameter = HostPointer<float>(args.parameter);
  const float* gradient = HostPointer<float>(args.gradient);
  float* m = HostPointer<float>(args.m);
  float* v = HostPointer<float>(args.v);
  ForEachChunk(args.elements, [&](int64_t first, int64_t count) {
    kernels_.adamw(step, parameter + first, gradient + first, m + first, v + first, count);
  });
  return absl::OkStatus();
}

absl::Status CpuOps::SquaredNorm(const SquaredNormArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  return Run("SquaredNorm", [&] {
    const float* x = HostPointer<float>(args.x);
    std::vector<double> sums((args.elements + kChunkElements - 1) / kChunkElements);
    ForEachChunk(args.elements, [&](int64_t first, int64_t count) {
      sums[first / kChunkElements] = kernels_.squared_norm(x + first, count);
    });
    *HostPointer<double>(args.out) = std::accumulate(sums.begin(), sums.end(), 0.0);
  });
}

absl::Status CpuOps::Fill(const FillArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* x = HostPointer<float>(args.x);
  ForEachChunk(args.elements,
               [&](int64_t first, int64_t count) { kernels_.fill(x + first, args.value, count); });
  return absl::OkStatus();
}

}  // namespace medley
