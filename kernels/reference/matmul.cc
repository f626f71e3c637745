#include <algorithm>
#include <vector>

#include "kernels/reference/accept.h"
#include "kernels/reference/gelu.h"
#include "runtime/base/vectorised.h"

namespace medley {
namespace {

// So many columns of the product are made at a time, of operands that lie beside each other.
constexpr int64_t kColumns = 64;

// Adds the products of `left` with the rows of `right`, each of `columns`, to `row`, in their order.
MEDLEY_VECTORISED void AddProducts(const std::vector<double>& left, const double* __restrict right,
                                   int64_t columns, double* __restrict row) {
  for (const double factor : left) {
    for (int64_t j = 0; j < columns; ++j) row[j] += factor * right[j];
    right += columns;
  }
}

// Stores `row`, `columns` elements of the product's row `i` from column `first` on, as the epilogue says.
void StoreRow(const MatmulArgs& args, int64_t i, int64_t first, int64_t columns, const double* row) {
  float* c = HostPointer<float>(args.c) + i * args.n + first;
  if (args.epilogue == Epilogue::kNone) {
    for (int64_t j = 0; j < columns; ++j) c[j] = static_cast<float>(row[j]);
    return;
  }
  float* pre_activation = HostPointer<float>(args.pre_activation) + i * args.n + first;
  for (int64_t j = 0; j < columns; ++j) {
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
  std::vector<double> left(args.k), right(args.k * std::min(args.n, kColumns));
  for (int64_t first = 0; first < args.n; first += kColumns) {
    const int64_t columns = std::min(args.n - first, kColumns);
    for (int64_t l = 0; l < args.k; ++l) {
      for (int64_t j = first; j < first + columns; ++j) {
        right[l * columns + j - first] =
            Operand(transpose_b ? b[j * args.k + l] : b[l * args.n + j], args.precision);
      }
    }
    for (int64_t i = 0; i < args.m; ++i) {
      double row[kColumns];
      for (int64_t j = 0; j < columns; ++j) {
        row[j] = (bias == nullptr ? 0.0 : bias[first + j]) +
                 (args.store == Store::kAdd ? c[i * args.n + first + j] : 0.0f);
      }
      for (int64_t l = 0; l < args.k; ++l)
        left[l] = Operand(transpose_a ? a[l * args.m + i] : a[i * args.k + l], args.precision);
      AddProducts(left, right.data(), columns, row);
      StoreRow(args, i, first, columns, row);
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
