#include <vector>

#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::Matmul(const MatmulArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* a = HostPointer<float>(args.a);
  const float* b = HostPointer<float>(args.b);
  const float* bias = HostPointer<float>(args.bias);
  float* c = HostPointer<float>(args.c);
  const bool transpose_a = args.transpose_a == Transpose::kYes;
  const bool transpose_b = args.transpose_b == Transpose::kYes;
  std::vector<double> row(args.n);
  for (int64_t i = 0; i < args.m; ++i) {
    for (int64_t j = 0; j < args.n; ++j) {
      row[j] = (bias == nullptr ? 0.0 : bias[j]) + (args.store == Store::kAdd ? c[i * args.n + j] : 0.0f);
    }
    for (int64_t l = 0; l < args.k; ++l) {
      const double left = Operand(transpose_a ? a[l * args.m + i] : a[i * args.k + l], args.precision);
      for (int64_t j = 0; j < args.n; ++j) {
        row[j] += left * Operand(transpose_b ? b[j * args.k + l] : b[l * args.n + j], args.precision);
      }
    }
    for (int64_t j = 0; j < args.n; ++j) c[i * args.n + j] = static_cast<float>(row[j]);
  }
  return absl::OkStatus();
}

}  // namespace medley
