#include <cstddef>
#include <cstring>
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

absl::Status CpuOps::Scale(const ScaleArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* x = HostPointer<float>(args.x);
  ForEachChunk(args.elements, [&](int64_t first, int64_t count) {
    kernels_.scale_rows(x + first, 1, count, count, &args.factor);
  });
  return absl::OkStatus();
}

absl::Status CpuOps::Cast(const CastArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const std::byte* x = HostPointer<std::byte>(args.x);
  std::byte* y = HostPointer<std::byte>(args.y);
  const int64_t from_bytes = SizeOf(args.x.dtype).value, to_bytes = SizeOf(args.y.dtype).value;
  const Dtype narrow = NarrowerOf(args.x.dtype, args.y.dtype);
  const auto to_narrow = narrow == Dtype::kF16 ? kernels_.to_f16 : kernels_.to_bf16;
  const auto from_narrow = narrow == Dtype::kF16 ? kernels_.from_f16 : kernels_.from_bf16;
  ForEachChunk(args.elements, [&](int64_t first, int64_t count) {
    const std::byte* from = x + first * from_bytes;
    std::byte* to = y + first * to_bytes;
    if (args.x.dtype == args.y.dtype) {
      std::memcpy(to, from, count * from_bytes);
    } else if (args.x.dtype == Dtype::kF32) {
      to_narrow(reinterpret_cast<const float*>(from), reinterpret_cast<uint16_t*>(to), count);
    } else {
      from_narrow(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<float*>(to), count);
    }
  });
  return absl::OkStatus();
}

// The threads share out all elements of all ranges evenly, however short a range is.
absl::Status CpuOps::AdamW(const AdamWArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* parameter = HostPointer<float>(args.parameter);
  const float* gradient = HostPointer<float>(args.gradient);
  float* m = HostPointer<float>(args.m);
  float* v = HostPointer<float>(args.v);
  int64_t elements = 0;
  for (const AdamWRange& range : args.ranges) elements += range.elements;
  const int parts = elements > kChunkElements ? threads_ : 1;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int part = 0; part < parts; ++part) {
    const int64_t begin = elements * part / parts, end = elements * (part + 1) / parts;
    int64_t passed = 0;
    for (const AdamWRange& range : args.ranges) {
      const int64_t from = std::max<int64_t>(begin - passed, 0);
      const int64_t to = std::min(end - passed, range.elements);
      passed += range.elements;
      if (from >= to) continue;
      const int64_t first = range.first + from;
      kernels_.adamw(MakeAdamWStep(args, range), parameter + first, gradient + first, m + first, v + first,
                     to - from);
    }
  }
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
