#include <vector>

#include "kernels/reference/accept.h"
#include "kernels/reference/gelu.h"

namespace medley {
namespace {

// Stores `row`, the product's row `i`, as the epilogue says.
void StoreRow(const MatmulArgs& args, int64_t i, const std::vector<double>& row) {
  float* c = HostPointer<float>(args.c) + i * args.n;
  if (args.epilogue == Epilogue::kNone) {
    for (int64_t j = 0; j < args.n; ++j) c[j] = static_cast<float>(row[j]);
    return;
  }
  float* pre_activation = HostPointer<float>(args.pre_activation) + i * args.n;
  for (int64_t j = 0; j < args.n; ++j) {
    if (args.epilogue == Epilogue::kGelu) {
      pre_activation[j] = static_cast<float>(row[j]);
      c[j] = static_cast<float>(Gelu(row[j]));
    } else {
      c[j] = static_cast<float>(row[j] * GeluGradient(pre_activation[j]));
    }
  }
}

}  // namespace

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
    StoreRow(args, i, row);
  }
  return absl::OkStatus();
}

}  // namespace medley
